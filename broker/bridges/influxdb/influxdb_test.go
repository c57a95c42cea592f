package influxdb_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/influxdb"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/bridges/peertest"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// connection returns a connection for Compile.
func connection(t *testing.T, connection, options, topicMapping string) *bridges.Connection {
	t.Helper()
	document := fmt.Sprintf(`{"name":"c1","connection":{%s},"options":{%s},"topicMappings":[{"name":"t1","mqttTopics":["#"]%s}]}`, connection, options, topicMapping)
	return bridgestest.Connection(t, document, mapping.Spec{Name: "s1", Mapping: []mapping.FieldSpec{
		{Source: "jsonPayload.v", Target: "value"}, {Source: "jsonPayload.n", Target: "count", Type: "integer"},
		{Source: "jsonPayload.on", Target: "on"}, {Source: "jsonPayload.name", Target: "name"}, {Source: "jsonPayload.none", Target: "none"},
		{Source: "jsonPayload.list", Target: "list"}}})
}

func compile(t *testing.T, server, options, topicMapping string) bridges.Connector {
	t.Helper()
	return bridgestest.Compile(t, influxdb.Kind{}, connection(t, server, options, topicMapping))
}

func to(p *peertest.InfluxDB) string { return as(p, p.Username, p.Password) }

func as(p *peertest.InfluxDB, username, password string) string {
	return fmt.Sprintf(`"version":1,"url":%q,"database":%q,"credentials":{"username":%q,"password":%q}`, p.URL, p.Database, username, password)
}

// freshDatabase creates a database for one test at a shared peer.
func freshDatabase(t *testing.T, p *peertest.InfluxDB, name string) *peertest.InfluxDB {
	t.Helper()
	p.Query(t, "CREATE DATABASE "+name)
	own := *p
	own.Database = name
	return &own
}

func TestPoints(t *testing.T) {
	t.Parallel()
	peer := peertest.StartInfluxDB(t)
	const at = "2023-11-14T22:13:20.001Z"
	for i, tt := range []struct {
		name, mapping, payload, query string
		want                          []any
	}{
		{"of a mapping", `,"target":"m","schemaMapping":"s1"`, `{"v":20,"n":7,"on":true,"name":"a \"b\"\\, c\nd","none":null,"list":[1,{"a":2}]}`,
			`SELECT value, count, "on", "name", list, topic FROM m GROUP BY none`, []any{at, 20.0, 7.0, true, "a \"b\"\\, c\nd", `[1,{"a":2}]`, "plant/line 1,x=y"}},
		{"of an object", `,"target":"${topic[0]}"`, `{"v":20,"on":false,"deep":{"a":1},"name":"é"}`,
			`SELECT v, "on", "name", deep FROM plant`, []any{at, 20.0, false, "é", nil}},
		{"of a number", `,"target":"m"`, `20.5`, `SELECT value FROM m`, []any{at, 20.5}},
		{"of a text", `,"target":"m"`, `on`, `SELECT value FROM m`, []any{at, "on"}},
		{"with tags", `,"target":"m","tags":{"z":"${topic[0]}","a":"${topic[1]}","empty":"${contentType}"}`, `1`, `SELECT a, z, value FROM m`, []any{at, "line 1,x=y", "plant", 1.0}},
		{"with a time", `,"target":"m","timestamp":"jsonPayload.at","timestampUnit":"s"`, `{"at":1500000000,"v":1}`, `SELECT v FROM m`, []any{"2017-07-14T02:40:00Z", 1.0}},
		{"with a time of RFC 3339", `,"target":"m","timestamp":"jsonPayload.at"`, `{"at":"2017-07-14T02:40:00.5Z","v":1}`, `SELECT v FROM m`, []any{"2017-07-14T02:40:00.5Z", 1.0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := freshDatabase(t, peer, fmt.Sprintf("points%d", i))
			e := bridgestest.Entry(1, "plant/line 1,x=y", tt.payload)
			o := bridgestest.Drive(t, compile(t, to(p), `"uniqueTimestamps":false`, tt.mapping), []*bridges.Entry{e}, 10, nil)
			if len(o.Rejected)+len(o.Failures) > 0 {
				t.Fatalf("got rejected %v and failures %q", o.Rejected, o.Failures)
			}
			if diff := cmp.Diff([][]any{tt.want}, p.Query(t, tt.query)); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoInjection writes characters that could end a tag or a name, and checks that the text is
// stored unchanged or not at all.
func TestNoInjection(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	c := compile(t, to(p), ``, `,"target":"m","tags":{"topic":"${topic}"}`)
	var entries []*bridges.Entry
	topics := []string{`x,evil=1`, `x evil=1`, `x\,evil\=1`, `x\ evil\=1`, `x\`, `x\y`, `x\\,evil=1`, `"x`, `x\"y`}
	for i, topic := range topics {
		entries = append(entries, bridgestest.Entry(uint64(i+1), topic, fmt.Sprintf(`{"v":%q}`, topic)))
	}
	o := bridgestest.Drive(t, c, entries, 3, nil)
	if want := len(topics) - len(o.Rejected); len(o.Rejected) != 4 || len(p.Query(t, `SELECT v, topic FROM m`)) != want {
		t.Errorf("got rejected %v", o.Rejected)
	}
	for _, row := range p.Query(t, `SELECT v, topic FROM m`) {
		if row[1] != row[2] {
			t.Errorf("got %q, want %q", row[2], row[1])
		}
	}
	for _, statement := range []string{`SHOW TAG KEYS`, `SHOW FIELD KEYS`, `SHOW MEASUREMENTS`} {
		if rows := p.Query(t, statement); len(rows) != 1 {
			t.Errorf("%s: got %v, want one", statement, rows)
		}
	}
}

// TestUniqueTimestamps checks that points of one millisecond are distinct, and that a point that
// is written twice is one.
func TestUniqueTimestamps(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	var entries []*bridges.Entry
	for i := range 10 {
		e := bridgestest.Entry(uint64(i+1), "a", fmt.Sprint(i))
		e.At = 1_700_000_000_000
		entries = append(entries, e, e)
	}
	for options, want := range map[string]float64{``: 10, `"uniqueTimestamps":false`: 1} {
		own := freshDatabase(t, p, fmt.Sprintf("unique%v", want))
		bridgestest.Drive(t, compile(t, to(own), options, `,"target":"m"`), entries, 7, nil)
		if got := own.Query(t, `SELECT count(value) FROM m`); got[0][1] != want {
			t.Errorf("%s: got %v points, want %v", options, got[0][1], want)
		}
	}
}

// TestPoison checks that points that can never be written are rejected and the others written.
func TestPoison(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	for _, options := range []string{``, `"compression":"none"`} {
		own := freshDatabase(t, p, fmt.Sprintf("poison%d", len(options)))
		c := compile(t, to(own), options, `,"target":"${topic[0]}","tags":{}`)
		var entries []*bridges.Entry
		want := map[uint64]bool{}
		for i := uint64(1); i <= 40; i++ {
			topic, payload := "m", fmt.Sprintf(`{"v":%d}`, i)
			switch i {
			case 5, 6, 30:
				payload = `{"v":"text"}` // the field has numbers already
			case 9:
				payload = `{"v":null}`
			case 10:
				payload = "\xff"
			case 11:
				topic = "#"
			case 12:
				payload = `{"v":1,"time":2}`
			default:
				entries = append(entries, bridgestest.Entry(i, topic, payload))
				continue
			}
			want[i] = true
			entries = append(entries, bridgestest.Entry(i, topic, payload))
		}
		o := bridgestest.Drive(t, c, entries, 40, nil)
		if len(o.Failures) > 0 {
			t.Errorf("got failures %q", o.Failures)
		}
		for id := range want {
			if o.Rejected[id] == "" {
				t.Errorf("entry %d was not rejected", id)
			}
		}
		for id, reason := range o.Rejected {
			if !want[id] || reason == "" || len(reason) > 500 {
				t.Errorf("entry %d was rejected: %.600s", id, reason)
			}
		}
		if got := own.Query(t, `SELECT count(v) FROM m`); got[0][1] != float64(40-len(want)) {
			t.Errorf("got %v points, want %d", got, 40-len(want))
		}
	}
}

// TestTooLarge checks that a point that exceeds the server's limit is rejected, compressed or
// not.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	large := make([]byte, peertest.InfluxMaxBody+100_000)
	rand.Read(large)
	entries := []*bridges.Entry{bridgestest.Entry(1, "a", base64.StdEncoding.EncodeToString(large)), bridgestest.Entry(2, "a", "small")}
	o := bridgestest.Drive(t, compile(t, to(p), ``, `,"target":"m"`), entries, 2, nil)
	if got := p.Query(t, `SELECT count(value) FROM m`); got[0][1] != 1.0 || o.Rejected[1] == "" || len(o.Failures) > 0 {
		t.Errorf("got %v points, rejected %v and failures %q", got, o.Rejected, o.Failures)
	}
}

// TestLargeBatch checks that a batch is split if the server does not accept it as a whole.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	var entries []*bridges.Entry
	for i := range 60 {
		entries = append(entries, bridgestest.Entry(uint64(i+1), "a", strings.Repeat("x", 60_000)))
	}
	o := bridgestest.Drive(t, compile(t, to(p), `"compression":"none"`, `,"target":"m"`), entries, 60, nil)
	if got := p.Query(t, `SELECT count(value) FROM m`); got[0][1] != 60.0 || len(o.Failures) > 0 {
		t.Errorf("got %v points and failures %q", got, o.Failures)
	}
}

// TestKill kills the server during deliveries and starts it again with its data. No point is lost
// or duplicated.
func TestKill(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	c := compile(t, to(p), ``, `,"target":"m"`)
	const count = 4000
	var entries []*bridges.Entry
	for i := range count {
		entries = append(entries, bridgestest.Entry(uint64(i+1), fmt.Sprint("t/", i%3), fmt.Sprint(i)))
	}
	o := bridgestest.DriveOverOutages(t, c, entries, 50, func() { p.Stop(t) }, func() { p.Kill(t) }, func() { p.Start(t) })
	if got := p.Query(t, `SELECT count(distinct(value)), count(value) FROM m`); got[0][1] != float64(count) || got[0][2] != float64(count) || len(o.Rejected) > 0 {
		t.Errorf("got %v points, want %d; rejected: %v", got, count, o.Rejected)
	}
	if len(o.Failures) == 0 {
		t.Error("the server was never away")
	}
}

// TestMissing checks that messages wait for their database.
func TestMissing(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	p.Query(t, "CREATE USER low WITH PASSWORD 'l0w-secret'")
	for _, tt := range []struct{ name, server, want string }{
		{"wrong password", as(p, p.Username, "wr0ng-secret"), "the server refuses this client: check the credentials or the token (status 401)"},
		{"no right", as(p, "low", "l0w-secret"), `the user or token may not write to the database "plant": allow it at the server (status 403)`},
		{"no database", strings.Replace(to(p), `"plant"`, `"nowhere"`, 1), `the server has not found the database "nowhere": create it, or check the names and the version (status 404)`},
		{"no retention policy", to(p) + `,"retentionPolicy":"none"`, `the server did not write to the database "plant" (status 500)`},
		{"not there", fmt.Sprintf(`"url":"http://%s","database":"x"`, brokertest.FreePort(t, "127.0.0.1")), "the server cannot be reached: it refuses connections"},
	} {
		err := bridgestest.Connect(t, compile(t, tt.server, ``, `,"target":"m"`))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	own := freshDatabase(t, p, "late")
	c := compile(t, to(own), ``, `,"target":"m"`)
	if err := bridgestest.Connect(t, c); err != nil {
		t.Fatal(err)
	}
	p.Query(t, "DROP DATABASE late")
	results := make([]bridges.Result, 1)
	if err := c.Deliver(t.Context(), []*bridges.Entry{bridgestest.Entry(1, "a", "1")}, results); err == nil || results[0].State != bridges.Pending {
		t.Errorf("got %v and %v, want it to wait", err, results[0])
	}
	p.Query(t, "CREATE DATABASE late")
	bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a", "1")}, 1, nil)
	if got := own.Query(t, `SELECT value FROM m`); len(got) != 1 {
		t.Errorf("got %v, want one point", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	p, stranger, plain := peertest.StartInfluxDB(t, peertest.TLS()), brokertest.NewCA(t), peertest.StartInfluxDB(t)
	for _, tt := range []struct{ name, server, want string }{
		{"trusted", to(p) + fmt.Sprintf(`,"tls":{"caCertificate":%q}`, p.CA), ""},
		{"not verified", to(p) + `,"tls":{"verify":false}`, ""},
		{"a stranger's", to(p) + fmt.Sprintf(`,"tls":{"caCertificate":%q}`, stranger.PEM), "certificate is not trusted"},
		{"not offered", strings.Replace(to(plain), "http:", "https:", 1), "does not speak TLS"},
	} {
		err := bridgestest.Connect(t, compile(t, tt.server, ``, `,"target":"m"`))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: got %v, want a connection", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
