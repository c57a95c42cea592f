package embedded

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// TestHPConnect connects clients while a node is down, while one does not answer,
// and while the others are down.
func TestHPConnect(t *testing.T) {
	t.Parallel()
	const median = 500 * time.Millisecond
	w := newWires(t)
	all := gatherHP(t, w.lay)
	n := all[0]
	connect(t, n, "with all nodes", time.Second, median)
	all[1].stop()
	connect(t, n, "with a node that is down", 3*time.Second, median)
	all[1].start()
	all.linked(t)
	w.isolate(all, all[2], true)
	connect(t, n, "with a node that does not answer", 3*time.Second, median)
	n.stop()
	began := time.Now()
	n.start()
	if took := time.Since(began); took > hearPatience+time.Second {
		t.Errorf("with a node that does not answer the start took %v", took)
	}
	connect(t, n, "started with a node that does not answer", 3*time.Second, median)
	w.isolate(all, all[2], false)
	all.linked(t)
	all[1].stop()
	all[2].stop()
	connect(t, n, "with nobody else", 3*time.Second, median)
	n.stop()
	began = time.Now()
	n.start()
	if took := time.Since(began); took > hearPatience+time.Second {
		t.Errorf("with nobody else the start took %v", took)
	}
	connect(t, n, "started with nobody else", 3*time.Second, median)
}

// connect times clients that connect one after the other, the median of which and
// all but the first must be let in in time; and then many at once.
func connect(t *testing.T, n *node, what string, first, median time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 20 {
		began := time.Now()
		join(t, n.Broker, 5, as("dev", "pw"), persistent).conn.Close()
		took = append(took, time.Since(began))
	}
	began := time.Now()
	var many sync.WaitGroup
	for range 50 {
		many.Go(func() { join(t, n.Broker, 5, as("dev", "pw")).conn.Close() })
	}
	many.Wait()
	storm := time.Since(began)
	t.Logf("%s: first %v, 50 at once %v", what, took[0], storm)
	if took[0] > first {
		t.Errorf("%s the first client waited %v", what, took[0])
	}
	slices.Sort(took)
	t.Logf("%s: median %v, longest %v", what, took[10], took[19])
	if took[10] > median {
		t.Errorf("%s a client waits %v", what, took[10])
	}
}
