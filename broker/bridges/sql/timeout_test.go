package sql

import (
	"context"
	"fmt"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/peertest"
	"signalbox/broker/outbound"
)

// timeouts are the batches that take the server longer than the connection allows.
var timeouts = map[string]test{
	"a row lock that outlasts the timeout":           testLockOutlasts,
	"a lock on a server that bounds nothing by time": testLockUnbounded,
	"a lock, and the connection is closed":           testLockClosed,
}

// lockedTable is a table without a unique column in which every insert waits for a lock that another
// session holds.
type lockedTable struct {
	d      *peertest.Database
	table  string
	holder *connector
}

func lockTable(t *testing.T, d *peertest.Database, table string) *lockedTable {
	t.Helper()
	d.Exec(t, "CREATE TABLE "+table+"_parent (id INTEGER PRIMARY KEY)")
	d.Exec(t, "INSERT INTO "+table+"_parent (id) VALUES (1)")
	d.Exec(t, "CREATE TABLE "+table+" (n INTEGER, parent INTEGER NOT NULL DEFAULT 1, FOREIGN KEY (parent) REFERENCES "+table+"_parent (id))")
	b := &lockedTable{d: d, table: table, holder: rigInto(t, d, table).connected()}
	execute(t, b.holder, "BEGIN")
	execute(t, b.holder, "UPDATE "+table+"_parent SET id = 2 WHERE id = 1")
	return b
}

// rigInto returns a rig that inserts into a table.
func rigInto(t *testing.T, d *peertest.Database, table string) *rig {
	return newRig(t, d).into("t1", table, "", "jsonPayload.n", "n")
}

// release releases the lock and waits until no statement waits for it any more.
func (b *lockedTable) release(t *testing.T) {
	t.Helper()
	execute(t, b.holder, "ROLLBACK")
	b.awaitNoInsert(t)
}

// awaitNoInsert waits until no statement inserts into the table.
func (b *lockedTable) awaitNoInsert(t *testing.T) {
	t.Helper()
	running := "SELECT query FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT INTO%" + b.table + "%'"
	if b.d.Driver == "mariadb" {
		running = "SELECT info FROM information_schema.processlist WHERE info LIKE 'INSERT INTO%" + b.table + "%'"
	}
	bridgestest.Await(t, func() error {
		if left := b.d.Column(t, running); len(left) > 0 {
			return fmt.Errorf("%d statements are still running", len(left))
		}
		return nil
	})
}

// deliverWithin delivers with a timeout that is too short, and connects again if the connection was
// lost.
func deliverWithin(t *testing.T, c *connector, batch []*bridges.Entry, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	err := c.Deliver(ctx, batch, make([]bridges.Result, len(batch)))
	if err == nil {
		t.Fatal("the lock does not hold")
	}
	if isLost(err) {
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *lockedTable) wantRows(t *testing.T, want string) {
	t.Helper()
	if got := b.d.Column(t, "SELECT COUNT(*) FROM "+b.table); got[0] != want {
		t.Errorf("got %s rows, want %s", got[0], want)
	}
}

// testLockOutlasts retries a batch while a lock is held. After its release each row exists once.
func testLockOutlasts(t *testing.T, d *peertest.Database) {
	b := lockTable(t, d, "outlasted")
	r := rigInto(t, d, b.table)
	r.timeout = time.Second
	c := r.connected()
	batch := r.entries("t1", numbered(1, 50)...)
	for range 3 {
		deliverWithin(t, c, batch, r.timeout)
	}
	b.release(t)
	bridgestest.Drive(t, c, batch, len(batch), nil) // the timeout may be too short for a single attempt
	b.wantRows(t, "50")
}

// testLockUnbounded has a server that ends no statement by itself: the abandoned statement is
// ended before the retry.
func testLockUnbounded(t *testing.T, d *peertest.Database) {
	b := lockTable(t, d, "unbounded")
	r := rigInto(t, d, b.table)
	c := r.connected()
	batch := r.entries("t1", numbered(1, 50)...)
	for range 3 {
		deliverWithin(t, c, batch, 200*time.Millisecond)
	}
	b.release(t)
	deliver(t, c, batch)
	b.wantRows(t, "50")
}

// testLockClosed closes a connection during a batch, as a change of the configuration does.
func testLockClosed(t *testing.T, d *peertest.Database) {
	b := lockTable(t, d, "closed_early")
	r := rigInto(t, d, b.table)
	c := r.connected()
	batch := r.entries("t1", numbered(1, 50)...)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Deliver(ctx, batch, make([]bridges.Result, len(batch))); !isLost(err) {
		t.Fatalf("got %v, want a lost connection", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := r.connected()
	b.release(t)
	deliver(t, next, batch)
	b.wantRows(t, "50")
}

// testCancelByName has a policy that allows only the name of the server. The policy must also
// permit the cancel request, which is sent to the server's address.
func testCancelByName(t *testing.T, d *peertest.Database) {
	policy, err := outbound.New(outbound.Config{Allow: []string{"localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	b := lockTable(t, d, "cancelled")
	r := rigInto(t, d, b.table)
	r.server["hostname"], r.dial = "localhost", policy.DialContext
	c := r.connected()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	batch := r.entries("t1", numbered(1, 5)...)
	if err := c.Deliver(ctx, batch, make([]bridges.Result, len(batch))); !isLost(err) {
		t.Fatalf("got %v, want a lost connection", err)
	}
	b.awaitNoInsert(t) // though the lock is still held
	b.release(t)
}
