package store

import (
	"context"
	"testing"

	"signalbox/broker/embedded/engine"
)

// TestStartLoad shows that the snapshot has what was submitted before StartLoad, and nothing of what was afterwards.
func TestStartLoad(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	for id := uint64(1); id < 200; id += 2 {
		s.Submit(&engine.Changes{PutSessions: []engine.SessionRecord{session(id)}})
		wait := s.StartLoad(context.Background())
		after := submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(id + 1)}})
		snapshot, err := wait()
		must(t, err, <-after)
		if snapshot.LastSessionID != id {
			t.Fatalf("the last session of the snapshot is %d, want %d", snapshot.LastSessionID, id)
		}
	}
}
