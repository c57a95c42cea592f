package systemtest

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// checkRoaming moves a client from node to node with its session: queued messages move
// with it, and it is connected at one node at a time.
func (c *cluster) checkRoaming(t *testing.T) {
	t.Helper()
	const name = "roaming"
	l := connectWorker(t, c.machines[0], name, false)
	l.wantSubscribed(t, "cross/roaming", 1)
	for round := range 4 {
		from, to := c.machines[round%3], c.machines[(round+1)%3]
		if round%2 == 0 { // it is offline when messages are published
			l.Close()
		}
		writer := connectClean(t, c.machines[(round+2)%3], "writes-to-roaming")
		for i := range 5 {
			writer.publish(t, "cross/roaming", fmt.Sprint(round, "/", i), 1, false)
		}
		moved := connectWorker(t, to, name, false)
		if !moved.present {
			t.Fatalf("round %d: the session did not come along from node %d to node %d", round, from.id, to.id)
		}
		if round%2 == 1 {
			l.awaitDisconnect(t)
		}
		for i := range 5 {
			if m := moved.receive(t); string(m.Payload) != fmt.Sprint(round, "/", i) {
				t.Fatalf("round %d: got %q, want message %d", round, m.Payload, i)
			}
		}
		l = moved
	}
	l.Close()
	clean := connectWorker(t, c.machines[2], name, true)
	if clean.present {
		t.Error("a clean start finds a session")
	}
	clean.Close()
	for _, m := range c.machines {
		last := connectWorker(t, m, name, false)
		if last.present {
			t.Errorf("node %d has a session that a clean start elsewhere ended", m.id)
		}
		last.Close()
		connectWorker(t, m, name, true).Close()
	}
}

// awaitDisconnect waits until the broker closes the connection.
func (l *link) awaitDisconnect(t testing.TB) {
	t.Helper()
	for {
		if _, _, err := l.Next(time.Now().Add(l.timeout)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection stays that another one took over")
		} else if err != nil {
			return
		}
	}
}
