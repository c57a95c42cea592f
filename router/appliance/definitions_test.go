package appliance

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/streams/store"
	"signalbox/db"
	"signalbox/handlers/vault"
)

// openDefinitions opens the stores of streams and bridges in a directory, until the test ends.
func openDefinitions(t *testing.T, dir string, d *db.DB, keys *sharedKeys, machine *vault.Vault) *definitions {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(dir, streamsFile), store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close(context.Background())) })
	b, err := bridgestore.Open(t.Context(), filepath.Join(dir, bridgesFile), bridgestore.Options{Seal: machine})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close(context.Background())) })
	return &definitions{db: d, keys: keys, streams: s, bridges: b, log: slog.New(slog.DiscardHandler)}
}
