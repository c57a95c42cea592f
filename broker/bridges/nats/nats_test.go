package nats_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/bridges/nats"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/packet"
)

const secret = "c0rrect-horse"

var kind = nats.Kind{}

// compile creates a connector from the members of a document.
func compile(t *testing.T, connection, options, topicMapping string) bridges.Connector {
	t.Helper()
	document := fmt.Sprintf(`{"name":"c1","connection":{%s},"options":{%s},"topicMappings":[{"name":"t1","mqttTopics":["#"]%s}]}`, connection, options, topicMapping)
	return bridgestest.Compile(t, kind, bridgestest.Connection(t, document,
		mapping.Spec{Name: "s1", Mapping: []mapping.FieldSpec{{Source: "jsonPayload.v", Target: "value", Required: true}}}))
}

func servers(p *peer) string { return fmt.Sprintf(`"servers":[%q]`, p.url) }

func TestMessage(t *testing.T) {
	t.Parallel()
	p := startPeer(t, nil)
	all := subscribe(t, p.client(t), ">")
	properties, err := packet.EncodeProperties([]packet.Property{
		{Identifier: packet.PropertyContentType, Value: "text/plain"},
		{Identifier: packet.PropertyUser, Name: "unit", Value: "m/s"},
		{Identifier: packet.PropertyUser, Name: "nats-rollup", Value: "all"},
		{Identifier: packet.PropertyUser, Name: "mqtt-topic", Value: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	headers := func(topic string) natsgo.Header {
		return natsgo.Header{"Mqtt-Topic": {topic}, "Mqtt-Qos": {"1"}, "Mqtt-Retain": {"false"}, "Nats-Msg-Id": {"store-1-1"},
			"Content-Type": {"text/plain"}, "unit": {"m/s"}}
	}
	for _, tt := range []struct{ name, mapping, topic, subject, data string }{
		{"as it is", ``, "a/b", "a.b", `{"v":1.5}`},
		{"escaped", ``, "/a b/c.d/%/*>é", "%.a%20b.c%2Ed.%25.%2A%3Eé", `{"v":1.5}`},
		{"target", `,"target":"plant.${topic}.x"`, "a/b", "plant.a.b.x", `{"v":1.5}`},
		{"value", `,"value":"<${jsonPayload.v}>"`, "a/b", "a.b", `<1.5>`},
		{"record", `,"schemaMapping":"s1"`, "a/b", "a.b", `{"value":1.5}`},
		{"without headers", `,"mqttHeaders":false`, "a/b", "a.b", `{"v":1.5}`},
	} {
		c := compile(t, servers(p), ``, tt.mapping)
		e := bridgestest.Entry(1, tt.topic, `{"v":1.5}`)
		e.Properties = properties
		bridgestest.Drive(t, c, []*bridges.Entry{e}, 10, nil)
		m := next(t, all)
		if m.Subject != tt.subject || string(m.Data) != tt.data {
			t.Errorf("%s: got %q on %q, want %q on %q", tt.name, m.Data, m.Subject, tt.data, tt.subject)
		}
		want := headers(tt.topic)
		if tt.name == "without headers" {
			want = nil
		}
		if diff := cmp.Diff(want, m.Header); diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestPoison checks that messages that can never be delivered are rejected and the others
// delivered.
func TestPoison(t *testing.T) {
	t.Parallel()
	p := startPeer(t, func(o *server.Options) { o.MaxPayload = 10_000 })
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("JetStream %t", stream), func(t *testing.T) {
			t.Parallel()
			prefix := fmt.Sprintf("p%t", stream)
			if stream {
				p.addStream(t, prefix, prefix+".>", 500)
			}
			all := subscribe(t, p.client(t), prefix+".>")
			c := compile(t, servers(p), fmt.Sprintf(`"jetStream":%t`, stream), fmt.Sprintf(`,"target":"%s.${jsonPayload.s}","mqttHeaders":false`, prefix))
			entries := []*bridges.Entry{
				bridgestest.Entry(1, "a", `{"s":"one"}`),
				bridgestest.Entry(2, "a", `no JSON`),
				bridgestest.Entry(3, "a", `{"s":""}`),
				bridgestest.Entry(4, "a", `{"s":"a b"}`),
				bridgestest.Entry(5, "a", `{"s":"x","fill":"`+strings.Repeat("x", 10_000)+`"}`),
				bridgestest.Entry(6, "a", `{"s":"two"}`),
			}
			want := []uint64{2, 3, 4, 5}
			if stream {
				entries = append(entries, bridgestest.Entry(7, "a", `{"s":"y","fill":"`+strings.Repeat("x", 1000)+`"}`))
				want = append(want, 7)
			}
			o := bridgestest.Drive(t, c, entries, 10, nil)
			if len(o.Failures) > 0 || len(o.Rejected) != len(want) {
				t.Errorf("got failures %q and rejected %v, want %v rejected", o.Failures, o.Rejected, want)
			}
			for _, id := range want {
				if o.Rejected[id] == "" {
					t.Errorf("entry %d was not rejected", id)
				}
			}
			for _, subject := range []string{".one", ".two"} {
				if m := next(t, all); m.Subject != prefix+subject {
					t.Errorf("got %q, want %s", m.Subject, prefix+subject)
				}
			}
		})
	}
}

// TestServersOwnSubjects checks that publishers cannot send requests to the servers.
func TestServersOwnSubjects(t *testing.T) {
	t.Parallel()
	p := startPeer(t, nil)
	c := compile(t, servers(p), ``, `,"target":"${payload}"`)
	o := bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a", "$JS.API.STREAM.DELETE.x"), bridgestest.Entry(2, "a", "_INBOX/a")}, 10, nil)
	if len(o.Rejected) != 2 {
		t.Errorf("got %v rejected, want both", o.Rejected)
	}
}

// TestRestart restarts the server during deliveries. With JetStream no message is lost or
// duplicated, and the order is kept.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := startPeer(t, nil)
	p.addStream(t, "kept", "kept.>", -1)
	c := compile(t, servers(p), `"jetStream":true`, `,"target":"kept.${topic}"`)
	const count = 2000
	var entries []*bridges.Entry
	for i := range count {
		entries = append(entries, bridgestest.Entry(uint64(i+1), fmt.Sprintf("t/%d", i%3), fmt.Sprint(i)))
	}
	o := bridgestest.DriveOverOutages(t, c, entries, 50, p.stop, p.stop, func() { p.start(t) })
	if len(o.Failures) == 0 || len(o.Rejected) > 0 {
		t.Errorf("got failures %q and rejected %v, want the first only", o.Failures, o.Rejected)
	}
	got := p.stored(t, "kept", "kept.>", count)
	last := map[string]int{}
	for _, m := range got {
		var n int
		if _, err := fmt.Sscan(string(m.Data), &n); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[m.Subject]; ok && n <= before {
			t.Fatalf("%s: %d came after %d", m.Subject, n, before)
		}
		last[m.Subject] = n
	}
}

// TestRestartWithoutStreams checks that a message counts as delivered only if the server has
// received it.
func TestRestartWithoutStreams(t *testing.T) {
	t.Parallel()
	p := startPeer(t, nil)
	c := compile(t, servers(p), ``, ``)
	if err := bridgestest.Connect(t, c); err != nil {
		t.Fatal(err)
	}
	p.stop()
	select {
	case <-c.(bridges.Watched).Changed():
	case <-t.Context().Done():
		t.Fatal("the end of the connection was not noticed")
	}
	var lost *bridges.Lost
	if err := c.Check(t.Context()); !errors.As(err, &lost) {
		t.Errorf("check: got %v, want a lost connection", err)
	}
	p.start(t)
	all := subscribe(t, p.client(t), ">")
	o := bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a", "x")}, 1, nil)
	if m := next(t, all); m.Subject != "a" || len(o.Failures) > 0 {
		t.Errorf("got a message on %q and failures %q", m.Subject, o.Failures)
	}
}

// TestNoStream checks that messages wait for a stream.
func TestNoStream(t *testing.T) {
	t.Parallel()
	p := startPeer(t, nil)
	c := compile(t, servers(p), `"jetStream":true`, ``)
	made := false
	o := bridgestest.Drive(t, c, []*bridges.Entry{bridgestest.Entry(1, "a", "x"), bridgestest.Entry(2, "a", "y")}, 2, func(int) {
		if !made {
			made = true
			p.addStream(t, "late", "a", -1)
		}
	})
	if want := `no stream accepts the subject "a": create one, or switch jetStream off`; len(o.Failures) != 1 || o.Failures[0] != want {
		t.Errorf("got failures %q, want %q", o.Failures, want)
	}
	p.stored(t, "late", "a", 2)
}

// TestNotPermitted checks that messages wait until the user may publish them, and that the error
// is shown at once.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("JetStream %t", stream), func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, func(o *server.Options) {
				o.Users = []*server.User{
					{Username: "bridge", Password: secret, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"no.>"}}}},
					{Username: "other", Password: secret}}
			})
			if stream {
				p.addStream(t, "all", "yes.>", -1, natsgo.UserInfo("other", secret))
			}
			c := compile(t, servers(p)+fmt.Sprintf(`,"credentials":{"username":"bridge","password":%q}`, secret), fmt.Sprintf(`"jetStream":%t`, stream), ``)
			if err := bridgestest.Connect(t, c); err != nil {
				t.Fatal(err)
			}
			for range 50 { // the server's report must arrive before the result
				results := make([]bridges.Result, 2)
				err := c.Deliver(t.Context(), []*bridges.Entry{bridgestest.Entry(1, "no/a", "x"), bridgestest.Entry(2, "yes/a", "x")}, results)
				const want = `the user may not publish to "no.a": allow it at the server, or change the target`
				if err == nil || err.Error() != want {
					t.Fatalf("got %v, want %s", err, want)
				}
				if diff := cmp.Diff([]bridges.Result{{State: bridges.Pending, Reason: want}, {State: bridges.Delivered}}, results); diff != "" {
					t.Fatalf("results (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pair.PublicKey()
	seed, _ := pair.Seed()
	other, _ := nkeys.CreateUser()
	wrongSeed, _ := other.Seed()
	for _, tt := range []struct {
		name         string
		server       func(*server.Options)
		right, wrong string
	}{
		{"password", func(o *server.Options) { o.Username, o.Password = "u", secret },
			fmt.Sprintf(`"credentials":{"username":"u","password":%q}`, secret), `"credentials":{"username":"u","password":"wr0ng-secret"}`},
		{"token", func(o *server.Options) { o.Authorization = secret }, fmt.Sprintf(`"token":%q`, secret), `"token":"wr0ng-secret"`},
		{"nkey", func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} },
			fmt.Sprintf(`"nkeySeed":%q`, seed), fmt.Sprintf(`"nkeySeed":%q`, wrongSeed)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, tt.server)
			if err := bridgestest.Connect(t, compile(t, servers(p)+","+tt.right, ``, ``)); err != nil {
				t.Errorf("got %v, want a connection", err)
			}
			err := bridgestest.Connect(t, compile(t, servers(p)+","+tt.wrong, ``, ``))
			if want := "the server refuses this client: check the credentials, token or nkey"; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := brokertest.NewCA(t), brokertest.NewCA(t)
	pair := ca.Issue(t, brokertest.CertOptions{Subject: "nats", Names: []string{"127.0.0.1"}})
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	secure := startPeer(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	})
	plain := startPeer(t, nil)
	for _, tt := range []struct {
		name string
		peer *peer
		tls  string
		want string
	}{
		{"trusted", secure, fmt.Sprintf(`{"enabled":true,"caCertificate":%q}`, ca.PEM), ""},
		{"a stranger's", secure, fmt.Sprintf(`{"enabled":true,"caCertificate":%q}`, stranger.PEM), "its certificate is not trusted, as its authority is unknown"},
		{"not switched on", secure, `{}`, "its certificate is not trusted, as its authority is unknown"},
		{"not offered", plain, `{"enabled":true}`, "the server offers no TLS: switch it off, or on at the server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := bridgestest.Connect(t, compile(t, servers(tt.peer)+`,"tls":`+tt.tls, ``, ``))
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want a connection", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
