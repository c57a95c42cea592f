package store

import (
	"fmt"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// TestSharedFile continuously writes access control and messages to one file. Neither
// may get SQLITE_BUSY, though neither waits within SQLite.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{Durability: storage.Process})
	within(t, s, `PRAGMA busy_timeout = 0`)
	control, err := access.Open(t.Context(), access.Options{File: s.file})
	must(t, err)
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
	const writers, each = 4, 100
	var wg sync.WaitGroup
	for w := range uint64(writers) {
		wg.Go(func() {
			for i := range uint64(each) {
				if err := control.CreateClient(t.Context(), broker.ClientSpec{Username: fmt.Sprint(w, "-", i)}); err != nil {
					t.Errorf("create a client: %v", err)
				}
			}
		})
		wg.Go(func() {
			for i := range uint64(each) {
				if err := <-submit(s, queued(1, message(1+w*each+i, "t"))); err != nil {
					t.Errorf("store a message: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if clients, err := control.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: 1}); err != nil || clients.Total != writers*each {
		t.Errorf("found %d clients (%v), want %d", clients.Total, err, writers*each)
	}
	must(t, control.Close(t.Context()))
	wantRows(t, s, map[string]int{"session": 1, "queue": writers * each, "message": writers * each})
	sound(t, s)
}
