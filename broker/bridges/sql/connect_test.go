package sql

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/peertest"
	"signalbox/broker/brokertest"
)

func isLost(err error) bool {
	_, ok := errors.AsType[*bridges.Lost](err)
	return ok
}

// connections are the tests of connecting to a running server.
var connections = map[string]test{
	"sentences about the server":     testConnectRefused,
	"sentences about tables":         testTables,
	"a user who may not do all":      testRights,
	"certificates":                   testTLS,
	"a database of another's schema": testSchema,
}

// testConnectRefused checks the error text of every reason for a refused connection, and that the
// password is not in it.
func testConnectRefused(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE unread (n INTEGER)")
	type change = map[string]any
	password := "Secret-" + d.Password
	for name, c := range map[string]struct {
		change change
		want   string
	}{
		"wrong password":    {change{"credentials": change{"username": d.Username, "password": password}}, `user name or password of "` + d.Username + `" is wrong`},
		"unknown user":      {change{"credentials": change{"username": "stranger", "password": password}}, `"stranger" is wrong`},
		"unknown database":  {change{"database": "nowhere"}, `it has no database "nowhere"`},
		"no server listens": {change{"port": portOf(t, brokertest.FreePort(t, "127.0.0.1"))}, "it refuses connections"},
		"unknown host":      {change{"hostname": "host.invalid"}, `the host "host.invalid" is not found`},
	} {
		r := newRig(t, d).into("t1", "unread", "", "jsonPayload.n", "n")
		maps.Copy(r.server, c.change)
		got := r.refused()
		if !strings.Contains(got, c.want) || !strings.Contains(got, "cannot connect to the database at ") || strings.Contains(got, password) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q in a sentence without the password", name, got, c.want)
		}
	}
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestConnectInTime checks that connecting to a silent server respects the deadline.
func TestConnectInTime(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	for _, driver := range []string{"postgresql", "mysql"} {
		r := newRig(t, &peertest.Database{Driver: driver, Host: "127.0.0.1", Port: portOf(t, deaf.Addr().String()), Name: "x", Username: "x", Password: "x"})
		c, problems := r.compile()
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := c.Connect(ctx); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("%s: got %v, want a sentence about time", driver, err)
		}
	}
}

// testTables checks the error texts about unsuitable tables, which are reported all at once.
func testTables(t *testing.T, d *peertest.Database) {
	q := doubleQuoted
	if d.Driver == "mariadb" {
		q = backQuoted
	}
	d.Exec(t, "CREATE TABLE readings (n INTEGER, "+q("Room")+" INTEGER, must INTEGER NOT NULL, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED)")
	got := newRig(t, d).into("t1", "nothing", "", "qos", "n").into("t2", "readings", "", "qos", "x", "qos", "ROOM", "qos", "twice").refused()
	want := []string{
		`the table nothing does not exist, or the user may not see it: create it, or change the target of the topic mapping "t1"`,
		`the table readings has no column "x": add it, or change the schema mapping "t2"`,
		`the table readings makes the values of its column "twice" itself: change the schema mapping "t2"`,
		`the table readings requires a value for its column "must": give it a default, or change the schema mapping "t2"`,
	}
	if d.Driver == "postgresql" {
		want = append(want, `the table readings has no column "ROOM", but "Room": add it, or change the schema mapping "t2"`)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got %q, want %q in it", got, w)
		}
	}
	if n := strings.Count(got, ";") + 1; n != len(want) {
		t.Errorf("got %d sentences, want %d: %q", n, len(want), got)
	}
}

// testRights connects as a user without all privileges.
func testRights(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE allowed (n INTEGER)")
	account := "guest"
	if d.Driver == "mariadb" {
		account = "'guest'@'127.0.0.1'"
		d.Exec(t, "CREATE USER "+account+" IDENTIFIED BY 'guest-secret'")
	} else {
		d.Exec(t, "CREATE USER guest PASSWORD 'guest-secret'")
	}
	d.Exec(t, "GRANT SELECT ON allowed TO "+account)
	r := newRig(t, d).into("t1", "allowed", "", "jsonPayload.n", "n")
	r.server["credentials"] = map[string]any{"username": "guest", "password": "guest-secret"}
	if got, want := r.refused(), `does not let the user insert into its column "n": grant INSERT`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	d.Exec(t, "GRANT INSERT ON allowed TO "+account)
	c := r.connected()
	deliver(t, c, r.entries("t1", `{"n":1}`))
	d.Exec(t, "REVOKE INSERT ON allowed FROM "+account)
	if d.Driver == "mariadb" {
		d.Exec(t, "FLUSH PRIVILEGES")
	}
	deliverLost(t, c, r.entries("t1", `{"n":2}`))
}

// testPolicy checks that only the rows that a policy forbids are rejected.
func testPolicy(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE policed (n INTEGER)")
	d.Exec(t, "CREATE USER clerk PASSWORD 'clerk-secret'")
	d.Exec(t, "GRANT INSERT ON policed TO clerk")
	d.Exec(t, "ALTER TABLE policed ENABLE ROW LEVEL SECURITY")
	d.Exec(t, "CREATE POLICY small ON policed FOR INSERT WITH CHECK (n < 10)")
	r := newRig(t, d).into("t1", "policed", "", "jsonPayload.n", "n")
	r.server["credentials"] = map[string]any{"username": "clerk", "password": "clerk-secret"}
	results := deliver(t, r.connected(), r.entries("t1", `{"n":1}`, `{"n":20}`, `{"n":3}`))
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(results)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// testTLS connects with and without verification of the server's certificate.
func testTLS(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE secure (n INTEGER)")
	with := func(tls map[string]any) *rig {
		r := newRig(t, d).into("t1", "secure", "", "jsonPayload.n", "n")
		tls["enabled"] = true
		r.server["tls"] = tls
		return r
	}
	r := with(map[string]any{"caCertificate": string(d.CA)})
	deliver(t, r.connected(), r.entries("t1", `{"n":1}`))
	with(map[string]any{"verify": false}).connected()
	if got, want := with(map[string]any{}).refused(), "as its authority is unknown"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	other := with(map[string]any{"caCertificate": string(d.CA), "serverName": "other.example"})
	if got, want := other.refused(), "its certificate is for another name"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// testReadOnly checks that a read-only PostgreSQL is refused.
func testReadOnly(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE fixed (n INTEGER)")
	d.Exec(t, "CREATE USER reader PASSWORD 'reader-secret'")
	d.Exec(t, "GRANT INSERT ON fixed TO reader")
	d.Exec(t, "ALTER USER reader SET default_transaction_read_only = on")
	r := newRig(t, d).into("t1", "fixed", "", "jsonPayload.n", "n")
	r.server["credentials"] = map[string]any{"username": "reader", "password": "reader-secret"}
	if got, want := r.refused(), "accepts no changes at present"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// testNoTransactions checks that tables without transactions are refused.
func testNoTransactions(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE loose (n INTEGER) ENGINE = MyISAM")
	got := newRig(t, d).into("t1", "loose", "", "jsonPayload.n", "n").refused()
	if want := "the table loose has the engine MyISAM, which knows no transactions: give it the engine InnoDB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// testSchema finds tables in a schema that is named with the table or with the connection.
func testSchema(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE SCHEMA hall")
	d.Exec(t, "CREATE TABLE hall.sensor (n INTEGER)")
	r := newRig(t, d).into("t1", "hall.sensor", "", "jsonPayload.n", "n")
	deliver(t, r.connected(), r.entries("t1", `{"n":1}`))
	if d.Driver == "postgresql" {
		r = newRig(t, d).into("t1", "sensor", "", "jsonPayload.n", "n")
		r.server["schema"] = "hall"
		deliver(t, r.connected(), r.entries("t1", `{"n":1}`))
	} else {
		d.Exec(t, "INSERT INTO hall.sensor VALUES (1)")
	}
	if got := d.Column(t, "SELECT COUNT(n) FROM hall.sensor"); got[0] != "2" {
		t.Errorf("got %s rows, want 2", got[0])
	}
	if got, want := newRig(t, d).into("t1", "sensor", "", "jsonPayload.n", "n").refused(), "the table sensor does not exist"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCompile checks the paths of the problems in a document.
func TestCompile(t *testing.T) {
	t.Parallel()
	d := &peertest.Database{Driver: "mysql", Host: "db,other", Port: 1, Name: "x"}
	r := newRig(t, d).into("t1", "a.b.c", "", "qos", strings.Repeat("n", 300)).into("t2", "", "", "qos", "n").into("t3", "ok", "", "qos", "n")
	r.server["schema"] = "public"
	_, problems := r.compile()
	var got []string
	for _, p := range problems {
		got = append(got, p.Path)
	}
	want := []string{"connection.credentials.username", "connection.schema", "connection.hostname", "topicMappings[0].target", "topicMappings[0].schemaMapping", "topicMappings[1].target"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
