package sessions_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
)

// TestDiscardedMessagesAreCounted counts what waited in a session that ends because its
// client has begun another one while the node was cut off.
func TestDiscardedMessagesAreCounted(t *testing.T) { virtually(t, testDiscardedMessagesAreCounted) }

func testDiscardedMessagesAreCounted(t *testing.T) {
	var discarded atomic.Int64
	c := newCluster(t, 2, impatient, func(o *sessions.Options) {
		o.Discarded = func(_, messages int) { discarded.Add(int64(messages)) }
	})
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Close()
	for range 3 {
		check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1}))
	}
	here.part(true)
	if there.Connect(keeps("c")).Present {
		t.Fatal("the session is present at a node that cannot have it")
	}
	here.part(false)
	until(t, "the newer session is the only one", func() bool { return slices.Equal(c.sessions("c"), []int{-2}) })
	until(t, "all answer", c.answers)
	synctest.Wait()
	if n := discarded.Load(); n != 3 {
		t.Errorf("%d of 3 discarded messages are counted", n)
	}
}
