package embedded

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// TestHPConnect connects clients while a node is down, while one does not respond, and
// while the others are down. It bounds how much longer that takes than with all nodes: only
// the first client waits for a node that does not respond, and the start takes no longer
// than routesTimeout.
func TestHPConnect(t *testing.T) {
	t.Parallel()
	w := newNetwork(t)
	all := gatherHP(t, w.attach)
	n := all[0]
	start := startTime(n)
	usual := connectTime(t, n, "with all nodes")
	connect := func(what string) {
		t.Helper()
		if median := connectTime(t, n, what); median > 20*usual+routesTimeout/10 {
			t.Errorf("%s a client waits %v, and %v with all nodes", what, median, usual)
		}
	}
	all[1].stop()
	connect("with a node that is down")
	all[1].start()
	all.linked(t)
	w.isolate(all, all[2], true)
	connect("with a node that does not answer")
	wantStart := func(what string) {
		t.Helper()
		if took := startTime(n); took > 10*start+2*routesTimeout {
			t.Errorf("%s the start took %v, and %v with all nodes", what, took, start)
		}
	}
	wantStart("with a node that does not answer")
	connect("started with a node that does not answer")
	w.isolate(all, all[2], false)
	all.linked(t)
	all[1].stop()
	all[2].stop()
	connect("with no other node")
	wantStart("with no other node")
	connect("started with no other node")
}

// startTime stops a node and returns how long its start takes.
func startTime(n *node) time.Duration {
	n.stop()
	began := time.Now()
	n.start()
	return time.Since(began)
}

// connectTime connects clients one after the other, and then many at once, and returns the
// median time of the former.
func connectTime(t *testing.T, n *node, what string) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 20 {
		began := time.Now()
		join(t, n.Broker, 5, as("dev", "pw"), persistent).Conn.Close()
		took = append(took, time.Since(began))
	}
	var many sync.WaitGroup
	for range 50 {
		many.Go(func() { join(t, n.Broker, 5, as("dev", "pw")).Conn.Close() })
	}
	many.Wait()
	first := took[0]
	slices.Sort(took)
	t.Logf("%s: first %v, median %v, longest %v", what, first, took[10], took[19])
	return took[10]
}
