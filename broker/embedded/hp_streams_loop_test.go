package embedded

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

// TestHPStreamLoops: a stream that closes a loop with streams of other nodes is refused, and a loop that was
// closed while one of them was away is shown until one of its streams is disabled.
func TestHPStreamLoops(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, streaming(t))
	keepStream(t, all[0].Broker, "a", "in/#", "mid", "")
	keepStream(t, all[1].Broker, "b", "mid", "out", "")
	source, target := "out", "in/1"
	closing := broker.StreamSpec{StreamName: "c", SourceTopic: &source, TargetTopic: &target}
	err := all[2].CreateStream(t.Context(), closing)
	if want := `"c" → "in/1" → "a of node 1" → "mid" → "b of node 2" → "out" → "c"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %s", err, want)
	}
	inactive, active := false, true
	closing.Active = &inactive
	if err := all[2].CreateStream(t.Context(), closing); err != nil {
		t.Fatal(err)
	}
	if err := all[2].ModifyStream(t.Context(), broker.StreamSpec{StreamName: "c", Active: &active}, false); err == nil {
		t.Error("the stream could be enabled")
	}

	all[1].stop()
	if err := all[2].ModifyStream(t.Context(), broker.StreamSpec{StreamName: "c", Active: &active}, false); err != nil {
		t.Fatalf("while a node of the loop is away: %v", err)
	}
	all[1].start()
	all.linked(t)
	shown := func() bool { // by the leader
		return slices.ContainsFunc(all, func(n *node) bool { return strings.Contains(n.raftStatus().Warning, "in which messages circulate") })
	}
	eventually(t, "the loop is shown", shown)
	if err := all[0].ModifyStream(t.Context(), broker.StreamSpec{StreamName: "a", Active: &inactive}, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loop is gone", func() bool { return !shown() })
}
