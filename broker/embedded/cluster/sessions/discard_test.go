package sessions_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
)

// TestDiscardedMessagesAreCounted counts the queued messages of a session that ends because
// its client began another one while the node was isolated.
func TestDiscardedMessagesAreCounted(t *testing.T) { inVirtualTime(t, testDiscardedMessagesAreCounted) }

func testDiscardedMessagesAreCounted(t *testing.T) {
	var discarded atomic.Int64
	c := newCluster(t, 2, shortTimeouts, func(o *sessions.Options) {
		o.Discarded = func(_, messages int) { discarded.Add(int64(messages)) }
	})
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Close()
	for range 3 {
		check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1}))
	}
	here.setIsolated(true)
	if there.Connect(keeps("c")).Present {
		t.Fatal("the session is present at a node that cannot reach it")
	}
	here.setIsolated(false)
	until(t, "the newer session is the only one", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
	until(t, "all nodes respond", c.allReachable)
	synctest.Wait()
	if n := discarded.Load(); n != 3 {
		t.Errorf("%d of 3 discarded messages are counted", n)
	}
}
