package embedded

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
)

// streaming makes a node have streams of its own, and search for loops often.
func streaming(t *testing.T) func(*node) {
	return func(n *node) {
		log := slog.New(slog.NewTextHandler(testLog{t}, nil))
		s, err := store.Open(t.Context(), filepath.Join(n.dir, "streams.db"), store.Options{Durability: storage.Process, Log: log, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
		n.config.Streams = streams.NewHost(streams.DefaultConfig(), s, log)
		n.config.Times.Flows = 50 * time.Millisecond
	}
}

// TestHPStreams: a stream at one node receives what is published at all, once, and a reader
// at another node receives what it publishes.
func TestHPStreams(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, streaming(t))
	reader := reading(t, all[2], "out")
	keepStream(t, all[0].Broker, "s", "in/#", "out", "")
	eventually(t, "the others know of the stream", func() bool {
		for _, n := range all[1:] {
			for _, f := range n.cluster.peering.Load().mesh.Figures() {
				if f.Node == 1 && f.Routes == 0 {
					return false
				}
			}
		}
		return true
	})
	for qos, n := range all {
		joinPatient(t, n).publishAll("in/1", byte(qos))
	}
	for range all {
		reader.wantTopic("out")
	}
	if rest := reader.Settled(); len(rest) > 0 {
		t.Errorf("the reader got %v, too", rest)
	}
	if s, err := all[0].GetStream(t.Context(), "s"); err != nil || s.Stats.Received != int64(len(all)) {
		t.Errorf("stream %+v: %v", s, err)
	}
}
