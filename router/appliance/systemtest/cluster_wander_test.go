package systemtest

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// wander has a client move from node to node with its session: what waits for it
// comes with it, and it is connected at one node at a time.
func (c *club) wander(t *testing.T) {
	t.Helper()
	const name = "wanderer"
	l := guest(t, c.machines[0], name, false)
	l.wantSubscribed(t, "cross/wander", 1)
	for round := range 4 {
		from, to := c.machines[round%3], c.machines[(round+1)%3]
		if round%2 == 0 { // it is away when it is written to
			l.close()
		}
		writer := visit(t, c.machines[(round+2)%3], "writes-to-wanderer")
		for i := range 5 {
			writer.put(t, "cross/wander", fmt.Sprint(round, "/", i), 1, false)
		}
		moved := guest(t, to, name, false)
		if !moved.present {
			t.Fatalf("round %d: the session did not come along from node %d to node %d", round, from.id, to.id)
		}
		if round%2 == 1 {
			l.wantEnd(t)
		}
		for i := range 5 {
			if m := moved.get(t); string(m.Payload) != fmt.Sprint(round, "/", i) {
				t.Fatalf("round %d: got %q, want message %d", round, m.Payload, i)
			}
		}
		l = moved
	}
	l.close()
	clean := guest(t, c.machines[2], name, true)
	if clean.present {
		t.Error("a clean start finds a session")
	}
	clean.close()
	for _, m := range c.machines {
		last := guest(t, m, name, false)
		if last.present {
			t.Errorf("node %d has a session that a clean start elsewhere ended", m.id)
		}
		last.close()
		guest(t, m, name, true).close()
	}
}

// wantEnd waits until the broker ends the connection.
func (l *link) wantEnd(t testing.TB) {
	t.Helper()
	for {
		if _, _, err := l.next(time.Now().Add(l.patience)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection stays that another one took over")
		} else if err != nil {
			return
		}
	}
}
