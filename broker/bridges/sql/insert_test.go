package sql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/peertest"
)

// insertions deliver batches in every way that does not end a connection.
var insertions = map[string]test{
	"a batch in its order":                       testOrder,
	"rows that do not fit":                       testBadRows,
	"every row wrong":                            testAllBad,
	"a row that is there is an error":            testConflictError,
	"a row that is there is ignored":             testConflictIgnored,
	"onConflict ignore passes nothing else over": testIgnoreIsStrict,
	"parents before children":                    testParents,
	"two tables in one transaction":              testTwoTables,
	"a table that wants more after an ALTER":     testGrownTable,
	"a table that is gone":                       testTableGone,
	"a topic mapping that is gone":               testMappingGone,
	"names that need quotes":                     testQuotes,
	"rows longer than a statement":               testLong,
	"a trigger that refuses":                     testTrigger,
	"what only the default mapping says":         testDefaultMapping,
}

// serialColumn is a column that numbers rows in the order of insertion.
func serialColumn(d *peertest.Database) string {
	if d.Driver == "mariadb" {
		return "seq BIGINT AUTO_INCREMENT PRIMARY KEY"
	}
	return "seq BIGSERIAL PRIMARY KEY"
}

func testOrder(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE ordered ("+serialColumn(d)+", n INTEGER, note VARCHAR(20))")
	r := newRig(t, d).into("t1", "ordered", "", "jsonPayload.n", "n", "jsonPayload.note", "note")
	c := r.connected()
	results := deliver(t, c, r.entries("t1", numbered(1, 300)...))
	if slices.ContainsFunc(states(results), func(s bridges.State) bool { return s != bridges.Delivered }) {
		t.Errorf("states %v, want all delivered", states(results))
	}
	deliver(t, c, r.entries("t1", `{"n":301,"note":"last"}`))
	var want [][]string
	for n := 1; n <= 300; n++ {
		want = append(want, []string{fmt.Sprint(n), "NULL"})
	}
	want = append(want, []string{"301", "last"})
	if diff := cmp.Diff(want, d.Query(t, "SELECT n, note FROM ordered ORDER BY seq")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testBadRows(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE picky ("+serialColumn(d)+", n INTEGER CHECK (n < 1000), word VARCHAR(5) NOT NULL)")
	r := newRig(t, d).into("t1", "picky", "", "jsonPayload.n", "n", "jsonPayload.word", "word")
	c := r.connected()
	batch := r.entries("t1",
		`{"n":1,"word":"a"}`, `{"n":2.5,"word":"a"}`, `{"n":3,"word":"too long"}`, `{"n":4,"word":"a"}`, `{"n":5}`,
		`{"n":"abc","word":"a"}`, `{"n":7000,"word":"a"}`, `{"n":8,"word":"a"}`, `no JSON`, `{"n":99999999999,"word":"a"}`, `{"n":11,"word":"a"}`)
	results := deliver(t, c, batch)
	for i, want := range []string{"", `"n" is of type`, "too long", "", "null", `"abc"`, "constraint", "", "not JSON", "out of range", ""} {
		got := results[i]
		if want == "" && got.State != bridges.Delivered || want != "" && (got.State != bridges.Rejected || !strings.Contains(strings.ToLower(fullReason(got)), strings.ToLower(want))) {
			t.Errorf("entry %d (%s): got %+v, want a reason with %q", i, batch[i].Payload, got, want)
		}
	}
	if diff := cmp.Diff([]string{"1", "4", "8", "11"}, d.Column(t, "SELECT n FROM picky ORDER BY seq")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testAllBad(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE closed (n INTEGER CHECK (n < 0))")
	r := newRig(t, d).into("t1", "closed", "", "jsonPayload.n", "n")
	for i, got := range deliver(t, r.connected(), r.entries("t1", numbered(1, 50)...)) {
		if got.State != bridges.Rejected || got.Reason == "" {
			t.Errorf("entry %d: got %+v, want it rejected with a reason", i, got)
		}
	}
}

// createUnique creates a table with a unique column for message ids.
func createUnique(t *testing.T, d *peertest.Database, name string) {
	d.Exec(t, "CREATE TABLE "+name+" ("+serialColumn(d)+", id VARCHAR(50) UNIQUE, n INTEGER NOT NULL)")
}

func testConflictError(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "strict_ids")
	r := newRig(t, d).into("t1", "strict_ids", "error", "message_id", "id", "jsonPayload.n", "n")
	c := r.connected()
	batch := r.entries("t1", numbered(1, 3)...)
	deliver(t, c, batch[1:2])
	results := deliver(t, c, batch)
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(results)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if !strings.Contains(strings.ToLower(results[1].Response), "duplicate") {
		t.Errorf("got %+v, want it to tell of a duplicate", results[1])
	}
}

func testConflictIgnored(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "ids")
	r := newRig(t, d).into("t1", "ids", "ignore", "message_id", "id", "jsonPayload.n", "n")
	c := r.connected()
	batch := r.entries("t1", numbered(1, 5)...)
	for _, part := range [][]*bridges.Entry{batch[1:3], batch, append(batch[3:], batch[4])} {
		for i, got := range deliver(t, c, part) {
			if got.State != bridges.Delivered {
				t.Errorf("entry %d of %d: got %+v", i, len(part), got)
			}
		}
	}
	if diff := cmp.Diff([]string{"2", "3", "1", "4", "5"}, d.Column(t, "SELECT n FROM ids ORDER BY seq")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testIgnoreIsStrict(t *testing.T, d *peertest.Database) {
	createUnique(t, d, "strict_ignore")
	r := newRig(t, d).into("t1", "strict_ignore", "ignore", "message_id", "id", "jsonPayload.n", "n")
	results := deliver(t, r.connected(), r.entries("t1", `{"n":1}`, `{"n":99999999999}`, `{}`, `{"n":4}`))
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(results)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func testParents(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE parents (id INTEGER PRIMARY KEY)")
	d.Exec(t, "CREATE TABLE children (n INTEGER, parent INTEGER NOT NULL, FOREIGN KEY (parent) REFERENCES parents (id))")
	r := newRig(t, d).into("p", "parents", "", "jsonPayload.n", "id").into("c", "children", "", "jsonPayload.n", "n", "jsonPayload.parent", "parent")
	batch := []*bridges.Entry{
		r.entry("p", `{"n":1}`), r.entry("c", `{"n":1,"parent":1}`), r.entry("p", `{"n":2}`), r.entry("c", `{"n":2,"parent":3}`),
		r.entry("p", `{"n":3}`), r.entry("c", `{"n":3,"parent":3}`),
	}
	want := []bridges.State{bridges.Delivered, bridges.Delivered, bridges.Delivered, bridges.Delivered, bridges.Delivered, bridges.Delivered}
	if diff := cmp.Diff(want, states(deliver(t, r.connected(), batch))); diff != "" {
		t.Errorf("a batch that is sound as a whole (-want +got):\n%s", diff)
	}
	batch = []*bridges.Entry{r.entry("c", `{"n":4,"parent":4}`), r.entry("c", `{"n":5,"parent":1}`), r.entry("p", `{"n":4}`)}
	want = []bridges.State{bridges.Rejected, bridges.Delivered, bridges.Delivered}
	if diff := cmp.Diff(want, states(deliver(t, r.connected(), batch))); diff != "" {
		t.Errorf("a child before its parent (-want +got):\n%s", diff)
	}
}

func testTwoTables(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE first_table (n INTEGER)")
	d.Exec(t, "CREATE TABLE second_table (n INTEGER)")
	r := newRig(t, d).into("a", "first_table", "", "jsonPayload.n", "n").into("b", "second_table", "", "jsonPayload.n", "n")
	batch := []*bridges.Entry{r.entry("b", `{"n":1}`), r.entry("a", `{"n":2}`), r.entry("b", `{"n":3}`)}
	deliver(t, r.connected(), batch)
	got := slices.Concat(d.Column(t, "SELECT n FROM first_table"), d.Column(t, "SELECT n FROM second_table ORDER BY n"))
	if diff := cmp.Diff([]string{"2", "1", "3"}, got); diff != "" {
		t.Errorf("rows of both tables (-want +got):\n%s", diff)
	}
}

func testDeferred(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE late_parents (id INTEGER PRIMARY KEY)")
	d.Exec(t, "CREATE TABLE late (n INTEGER REFERENCES late_parents DEFERRABLE INITIALLY DEFERRED)")
	d.Exec(t, "INSERT INTO late_parents VALUES (1)")
	r := newRig(t, d).into("t1", "late", "", "jsonPayload.n", "n")
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(deliver(t, r.connected(), r.entries("t1", `{"n":1}`, `{"n":2}`, `{"n":1}`)))); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "1"}, d.Column(t, "SELECT n FROM late")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// deliverLost delivers entries that must stay pending because the connection must be made again.
func deliverLost(t *testing.T, c *connector, batch []*bridges.Entry) {
	t.Helper()
	results := make([]bridges.Result, len(batch))
	err := c.Deliver(t.Context(), batch, results)
	if !isLost(err) {
		t.Fatalf("got %v, want a lost connection", err)
	}
	for i, r := range results {
		if r.State != bridges.Pending {
			t.Errorf("entry %d: got %+v, want it pending", i, r)
		}
	}
}

func testGrownTable(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE grown (n INTEGER)")
	r := newRig(t, d).into("t1", "grown", "", "jsonPayload.n", "n")
	c := r.connected()
	d.Exec(t, "ALTER TABLE grown ADD COLUMN room VARCHAR(10) NOT NULL")
	batch := r.entries("t1", numbered(1, 4)...)
	deliverLost(t, c, batch)
	err := c.Connect(t.Context())
	if err == nil || !strings.Contains(err.Error(), `the table grown requires a value for its column "room"`) {
		t.Fatalf("got %v, want a sentence about the column", err)
	}
	d.Exec(t, "ALTER TABLE grown ALTER COLUMN room SET DEFAULT 'hall'")
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	deliver(t, c, batch)
	if got := d.Column(t, "SELECT COUNT(n) FROM grown WHERE room = 'hall'"); got[0] != "4" {
		t.Errorf("got %s rows, want 4", got[0])
	}
}

func testTableGone(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE gone (n INTEGER)")
	r := newRig(t, d).into("t1", "gone", "", "jsonPayload.n", "n")
	c := r.connected()
	d.Exec(t, "DROP TABLE gone")
	deliverLost(t, c, r.entries("t1", numbered(1, 4)...))
	err := c.Connect(t.Context())
	if want := "the table gone does not exist"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func testMappingGone(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE kept (n INTEGER)")
	r := newRig(t, d).into("t1", "kept", "", "jsonPayload.n", "n")
	results := deliver(t, r.connected(), []*bridges.Entry{r.entry("t1", `{"n":1}`), r.entry("t2", `{"n":1}`)})
	if diff := cmp.Diff([]bridges.State{bridges.Delivered, bridges.Rejected}, states(results)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func testQuotes(t *testing.T, d *peertest.Database) {
	q := doubleQuoted
	if d.Driver == "mariadb" {
		q = backQuoted
	}
	odd, column := "Odd \"`'; DROP", "it's \"so\" `odd`?"
	d.Exec(t, "CREATE TABLE "+q(odd)+" ("+q(column)+" TEXT)")
	r := newRig(t, d).into("t1", odd, "ignore", "payload", column)
	payload := "'; DROP TABLE x; -- \" ` \\ \\' ? $1 \n ☃"
	deliver(t, r.connected(), r.entries("t1", payload, `\`))
	if diff := cmp.Diff([]string{payload, `\`}, d.Column(t, "SELECT "+q(column)+" FROM "+q(odd))); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func testLong(t *testing.T, d *peertest.Database) {
	kind := "BYTEA"
	if d.Driver == "mariadb" {
		kind = "LONGBLOB"
	}
	d.Exec(t, "CREATE TABLE lengthy ("+serialColumn(d)+", b "+kind+")")
	r := newRig(t, d).into("t1", "lengthy", "", "payload", "b")
	c := r.connected()
	piece := strings.Repeat("\x00\xff'\\", 1<<18)
	var batch []*bridges.Entry
	for range 12 { // 12 MiB, which quoted is more than MariaDB takes at once
		batch = append(batch, r.entry("t1", piece))
	}
	for i, got := range deliver(t, c, batch) {
		if got.State != bridges.Delivered {
			t.Errorf("entry %d: got %+v", i, got)
		}
	}
	if got := d.Query(t, "SELECT COUNT(b), MIN(LENGTH(b)), MAX(LENGTH(b)) FROM lengthy"); !cmp.Equal(got, [][]string{{"12", "1048576", "1048576"}}) {
		t.Errorf("got %v, want 12 rows of 1 MiB", got)
	}
	if d.Driver == "mariadb" {
		results := deliver(t, c, r.entries("t1", "short", strings.Repeat("x", 17<<20), "short too"))
		want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered}
		if diff := cmp.Diff(want, states(results)); diff != "" || !strings.Contains(results[1].Reason, "max_allowed_packet") {
			t.Errorf("states with a row that is too long (-want +got):\n%s%s", diff, results[1].Reason)
		}
	}
}

func testTrigger(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE TABLE watched (n INTEGER)")
	if d.Driver == "mariadb" {
		d.Exec(t, "CREATE TRIGGER watch BEFORE INSERT ON watched FOR EACH ROW IF NEW.n = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not two'; END IF")
	} else {
		d.Exec(t, "CREATE FUNCTION watch() RETURNS trigger AS $$ BEGIN IF NEW.n = 2 THEN RAISE EXCEPTION 'not two'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql")
		d.Exec(t, "CREATE TRIGGER watch BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION watch()")
	}
	r := newRig(t, d).into("t1", "watched", "", "jsonPayload.n", "n")
	results := deliver(t, r.connected(), r.entries("t1", numbered(1, 3)...))
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(results)); diff != "" || !strings.Contains(results[1].Response, "not two") || strings.Contains(results[1].Reason, "not two") {
		t.Errorf("states (-want +got):\n%s%+v", diff, results[1])
	}
}

// fullReason returns what an editor sees of a rejected entry: the reason and the database's own
// message.
func fullReason(r bridges.Result) string { return r.Reason + ": " + r.Response }

// testNullElsewhere has a NULL refused by a domain, and by a table that a trigger fills.
func testNullElsewhere(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE DOMAIN something AS INTEGER NOT NULL")
	d.Exec(t, "CREATE TABLE audit (seen INTEGER NOT NULL)")
	d.Exec(t, "CREATE TABLE audited (n something, m INTEGER)")
	d.Exec(t, "CREATE FUNCTION audit() RETURNS trigger AS $$ BEGIN INSERT INTO audit VALUES (NEW.m); RETURN NEW; END $$ LANGUAGE plpgsql")
	d.Exec(t, "CREATE TRIGGER audit BEFORE INSERT ON audited FOR EACH ROW EXECUTE FUNCTION audit()")
	r := newRig(t, d).into("t1", "audited", "", "jsonPayload.n", "n", "jsonPayload.m", "m")
	results := deliver(t, r.connected(), r.entries("t1", `{"n":1,"m":1}`, `{"m":2}`, `{"n":3}`, `{"n":4,"m":4}`))
	want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Rejected, bridges.Delivered}
	if diff := cmp.Diff(want, states(results)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

// testSequence checks that no row is rejected because a sequence is exhausted.
func testSequence(t *testing.T, d *peertest.Database) {
	d.Exec(t, "CREATE SEQUENCE few MAXVALUE 3")
	d.Exec(t, "CREATE TABLE few_numbers (seq INTEGER DEFAULT nextval('few'), n INTEGER)")
	r := newRig(t, d).into("t1", "few_numbers", "", "jsonPayload.n", "n")
	c := r.connected()
	batch := r.entries("t1", numbered(1, 5)...)
	results := make([]bridges.Result, len(batch))
	if err := c.Deliver(t.Context(), batch, results); err == nil || isLost(err) || results[0].State != bridges.Pending {
		t.Errorf("got %v and %+v, want it pending", err, results)
	}
	d.Exec(t, "ALTER SEQUENCE few MAXVALUE 100")
	deliver(t, c, batch)
}

func testDefaultMapping(t *testing.T, d *peertest.Database) {
	moment := "TIMESTAMPTZ(3)"
	if d.Driver == "mariadb" {
		moment = "DATETIME(3)"
	}
	d.Exec(t, "CREATE TABLE plain (topic TEXT, payload TEXT, qos SMALLINT, retain BOOLEAN, timestamp "+moment+", client_id TEXT)")
	r := newRig(t, d)
	r.mappings = []map[string]any{{"name": "t1", "mqttTopics": []string{"#"}, "target": "plain"}}
	deliver(t, r.connected(), r.entries("t1", "4.2"))
	got := d.Query(t, "SELECT topic, payload, qos, client_id, timestamp = '2023-11-14 22:13:20.123', retain FROM plain")
	if !cmp.Equal(got[0][:4], []string{"plant/7", "4.2", "1", "pump"}) || got[0][4] != "1" && got[0][4] != "true" || got[0][5] != "0" && got[0][5] != "false" {
		t.Errorf("got %v", got)
	}
}
