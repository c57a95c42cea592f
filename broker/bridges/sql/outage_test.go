package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/peertest"
	"signalbox/scripts/suite"
)

// outages are faults of one connection, while the server keeps running for others.
var outages = map[string]test{
	"a response that is lost":         testResponseLost,
	"a response that does not come":   testSilence,
	"a session that is ended":         testSessionEnded,
	"a lock that another session has": testLock,
	"time that is over in a batch":    testTime,
}

// testResponseLost has a commit with an unknown outcome. A unique column prevents duplicates.
func testResponseLost(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "answers")
	w := newFaultProxy(t, d)
	r := newRig(t, d).into("t1", "answers", "ignore", "message_id", "id", "jsonPayload.n", "n").into("t2", "answers", "error", "message_id", "id", "jsonPayload.n", "n")
	r.server["port"] = w.port(t)
	c := r.connected()
	batch := r.entries("t1", numbered(1, 20)...)
	w.fault.Store(faultClose)
	deliverLost(t, c, batch)
	<-w.dropped
	w.fault.Store(faultNone)
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, c, batch)
	if got := d.Column(t, "SELECT COUNT(n) FROM answers"); got[0] != "20" {
		t.Errorf("got %s rows, want 20", got[0])
	}
	for i, e := range batch {
		e.Mapping = "t2"
		if got := deliver(t, c, batch[i:i+1])[0]; got.State != bridges.Rejected {
			t.Errorf("entry %d came twice with onConflict error: got %+v, want it rejected", i, got)
		}
	}
}

// testSilence checks that a delivery respects its deadline.
func testSilence(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "silence")
	w := newFaultProxy(t, d)
	r := newRig(t, d).into("t1", "silence", "ignore", "message_id", "id", "jsonPayload.n", "n")
	r.server["port"] = w.port(t)
	c := r.connected()
	batch := r.entries("t1", numbered(1, 20)...)
	w.fault.Store(faultDrop)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := c.Deliver(ctx, batch, make([]bridges.Result, len(batch)))
	if !isLost(err) || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("got %v, want a lost connection for want of an answer", err)
	}
	if took := time.Since(began); took > suite.HangLimit {
		t.Errorf("it took %s to give up after 200 ms", took)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Connect(ctx); err == nil {
		t.Error("there is a connection to who says nothing")
	}
	w.fault.Store(faultNone)
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, c, batch)
	if got := d.Column(t, "SELECT COUNT(n) FROM silence"); got[0] != "20" {
		t.Errorf("got %s rows, want 20", got[0])
	}
}

// testTime checks that no statement is started when most of the time has passed and one row has a
// result. The rest stays pending without a reason, as it was not tried.
func testTime(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE slow (n INTEGER CHECK (n > 0))")
	r := newRig(t, d).into("t1", "slow", "", "jsonPayload.n", "n")
	c := r.connected()
	var rows []row
	for i, e := range r.entries("t1", `{"n":0}`, `{"n":1}`, `{"n":2}`, `{"n":3}`) {
		row, err := c.row(e)
		if err != nil {
			t.Fatal(err)
		}
		row.index = i
		rows = append(rows, row)
	}
	late := delivery{session: c.session, results: make([]bridges.Result, len(rows)), startDeadline: time.Now()}
	if err := late.insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	want := []bridges.State{bridges.Rejected, bridges.Pending, bridges.Pending, bridges.Pending}
	if diff := cmp.Diff(want, states(late.results)); diff != "" || late.results[1].Reason != "" {
		t.Errorf("states (-want +got):\n%s%q", diff, late.results[1].Reason)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if left := time.Until(startDeadline(ctx)); left < 44*time.Minute || left > 45*time.Minute {
		t.Errorf("of an hour enough is over in %s, want 45 minutes", left)
	}
}

// testSessionEnded checks that the end of the session at the server is noticed.
func testSessionEnded(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE ended (n INTEGER)")
	r := newRig(t, d).into("t1", "ended", "", "jsonPayload.n", "n")
	c := r.connected()
	end, sessions := "SELECT pg_terminate_backend(%s)", "SELECT pid FROM pg_stat_activity WHERE pid = "
	if d.Driver == "mariadb" {
		end, sessions = "KILL CONNECTION %s", "SELECT id FROM information_schema.processlist WHERE id = "
	}
	kill := func() {
		id := sessionOf(t, c)
		d.Exec(t, fmt.Sprintf(end, id))
		bridgestest.Await(t, func() error {
			if left := d.Column(t, sessions+id); len(left) > 0 {
				return fmt.Errorf("the session %s is still there", id)
			}
			return nil
		})
	}
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("check of a connection: %v", err)
	}
	kill()
	if err := c.Check(t.Context()); !isLost(err) {
		t.Errorf("got %v, want a lost connection", err)
	}
	deliverLost(t, c, r.entries("t1", `{"n":1}`))
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	kill()
	deliverLost(t, c, r.entries("t1", `{"n":1}`))
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, c, r.entries("t1", `{"n":1}`))
}

// sessionOf returns the server's id of the session.
func sessionOf(t *testing.T, c *connector) string {
	t.Helper()
	switch s := c.session.(type) {
	case *postgresSession:
		return strconv.FormatUint(uint64(s.conn.PID()), 10)
	case *mySQLSession:
		var id string
		if err := s.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	t.Fatal("no session")
	return ""
}

// testLock waits for a lock until the server's timeout; the batch stays pending.
func testLock(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "locked")
	holder := newRig(t, d).into("t1", "locked", "", "message_id", "id", "jsonPayload.n", "n").connected()
	r := newRig(t, d).into("t1", "locked", "", "message_id", "id", "jsonPayload.n", "n")
	c := r.connected()
	hold, release, brief := "BEGIN; INSERT INTO locked (id, n) VALUES ('m1', 1)", "ROLLBACK", "SET lock_timeout = '50ms'"
	if d.Driver == "mariadb" {
		hold, brief = "INSERT INTO locked (id, n) VALUES ('m1', 1)", "SET SESSION innodb_lock_wait_timeout = 1"
		execute(t, holder, "BEGIN")
	}
	execute(t, holder, hold)
	execute(t, c, brief)
	batch := r.entries("t1", numbered(1, 3)...)
	results := make([]bridges.Result, len(batch))
	err := c.Deliver(t.Context(), batch, results)
	if err == nil || isLost(err) || results[0].State != bridges.Pending {
		t.Errorf("got %v and %+v, want it pending on a connection that is there", err, results)
	}
	execute(t, holder, release)
	deliver(t, c, batch)
}

// execute executes a statement in the session of a connector.
func execute(t testing.TB, c *connector, statement string) {
	t.Helper()
	var err error
	switch s := c.session.(type) {
	case *postgresSession:
		err = s.conn.Exec(t.Context(), statement).Close()
	case *mySQLSession:
		_, err = s.conn.ExecContext(t.Context(), statement)
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestServerEnds publishes while the server is stopped, killed and started again. In the end
// every message exists exactly once, in order.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			createUnique(t, d, "kept")
			r := bridgestest.Start(t, Kind{}, nil)
			r.Set(configuration(t, d, "kept"))
			published := 0
			publish := func() {
				for range 1000 {
					published++
					r.Broker.Text("plant/7", fmt.Sprintf(`{"n":%d}`, published))
				}
			}
			publish()
			r.Until("db", "something is delivered", func(s broker.BridgeStatus) bool { return s.Stats.Delivered > 0 })
			publish()
			d.Kill(t)
			publish()
			r.Until("db", "the outage is told", func(s broker.BridgeStatus) bool { return !s.IsConnected && s.Error != "" })
			d.Start(t)
			r.Until("db", "there is a connection", func(s broker.BridgeStatus) bool { return s.IsConnected })
			publish()
			d.Stop(t)
			d.Start(t)
			publish()
			r.Until("db", "all is delivered", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 0 && s.IsConnected })
			want := make([]string, published)
			for i := range want {
				want[i] = strconv.Itoa(i + 1)
			}
			if diff := cmp.Diff(want, d.Column(t, "SELECT n FROM kept ORDER BY seq")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if letters := r.DeadLetters("db"); len(letters) > 0 {
				t.Errorf("got %d dead letters; the first: %+v", len(letters), letters[0])
			}
		})
	}
}

// configuration returns a whole configuration that fills a table created by unique.
func configuration(t *testing.T, d *peertest.Database, table string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"version": "v1",
		"connections": []any{map[string]any{
			"name": "db",
			"connection": map[string]any{"driver": d.Driver, "hostname": d.Host, "port": d.Port, "database": d.Name,
				"credentials": map[string]any{"username": d.Username, "password": d.Password}},
			"options":       map[string]any{"retryMinInsertDelay": 10, "retryMaxInsertDelay": 50},
			"topicMappings": []any{map[string]any{"name": "t1", "mqttTopics": []string{"plant/#"}, "target": table, "schemaMapping": "s1", "onConflict": "ignore"}},
		}},
		"schemaMappings": []any{map[string]any{"name": "s1", "mapping": []any{
			map[string]any{"source": "message_id", "target": "id"},
			map[string]any{"source": "jsonPayload.n", "target": "n", "type": "integer"},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
