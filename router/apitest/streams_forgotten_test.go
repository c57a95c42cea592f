package apitest_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// TestDeletedBrokersForgetTheirStreams, deleted alone or with their project. The
// brokers are down, so their streams are stored beforehand.
func TestDeletedBrokersForgetTheirStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, apitest.In(dir))
	var project handlers.ProjectRecord
	api.Root.Post("/api/projects", object{"name": "short-lived"}).Want(200).Decode(&project)
	purge := "/api/projects/" + project.ID
	down := object{"name": "down", "url": "mqtt://127.0.0.1:1"}
	stays, deleted := addBroker(t, api, down), addBroker(t, api, down)
	var purged handlers.Identifier
	api.Root.Post(purge+"/brokers", down).Want(200).Decode(&purged)
	api.Stop()
	ids := []string{stays, deleted, purged.ID}
	kept := openStreams(t, dir)
	for _, id := range ids {
		d := streams.Definition{Stream: broker.Stream{StreamName: "s", SourceTopic: "a", TargetQoS: -1, Active: true, Query: json.RawMessage(`{}`)}}
		if _, err := kept.Put(t.Context(), id, d); err != nil {
			t.Fatal(err)
		}
	}
	kept.Close(t.Context()) //nolint:errcheck // what was not stored is missing below

	api = apitest.New(t, apitest.In(dir))
	api.Root.Delete(api.BrokerAt(deleted, "")).Want(204)
	api.Root.Delete(purge).WantError(400, "CONFLICT") // deletes nothing
	api.Root.Delete(purge + "?purge=true").Want(204)
	api.Stop()
	kept = openStreams(t, dir)
	defer kept.Close(t.Context()) //nolint:errcheck // it is only read
	for i, want := range []int{1, 0, 0} {
		list, err := kept.Definitions(t.Context(), ids[i])
		if err != nil || len(list) != want {
			t.Errorf("broker %d: %d streams are stored, %v, want %d", i, len(list), err, want)
		}
	}
}

// openStreams opens the database of streams in the directory of a stopped service.
func openStreams(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(dir, "streams.db"), store.Options{
		Durability: storage.Durability("full"), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
