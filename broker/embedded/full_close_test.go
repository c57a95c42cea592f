package embedded

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"signalbox/broker/control"
	"signalbox/scripts/suite"
)

// TestFullClose closes nodes while the leadership moves. They finish in time, restart and
// serve, and leave no goroutine behind.
func TestFullClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	reader := join(t, all.serving(t).Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")
	reader.Conn.Close()
	for round := range 8 {
		leader := all.serving(t)
		next := all[leader.at.NodeID%3]
		publisher := join(t, leader.Broker, 5, as("dev", "pw"))
		publisher.Publish("news", "x", 1)
		handed := make(chan struct{})
		go func() {
			defer close(handed)
			ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
			defer cancel()
			leader.AskHA(ctx, control.SetLeader("plant", next.at.NodeID), nil) //nolint:errcheck // it is closing
		}()
		closing := []*node{leader, next}[round%2]
		b := closing.Broker
		wait := time.NewTimer(time.Duration(rand.IntN(60)) * time.Millisecond)
		<-wait.C // a different moment each time
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-handed
		closing.start()
		eventually(t, "all nodes are there", all.areAll)
	}
	if got := readAll(t, all.serving(t), 8); len(got) != 8 {
		t.Errorf("got %d messages, want 8", len(got))
	}
	for _, n := range all {
		n.stop()
	}
	if left := suite.Leaks(before); left != nil {
		t.Error(left)
	}
}
