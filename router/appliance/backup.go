package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/embedded/access"
	"signalbox/broker/storage"
	"signalbox/broker/streams/store"
	"signalbox/db"
	"signalbox/router/appliance/backup"
)

// Backup writes a backup of the data directory, of which a service may be running, to a
// new file.
func Backup(ctx context.Context, c Config, file string, o backup.Options) (*backup.Manifest, error) {
	return backup.Create(ctx, c.DataDir, file, o)
}

// VerifyBackup reads a whole backup, and opens its databases with this version's
// migrations in a temporary directory beside it.
func VerifyBackup(ctx context.Context, file string, with backup.Identities) (m *backup.Manifest, err error) {
	return verifyIn(ctx, filepath.Dir(file), file, with)
}

// verifyIn is VerifyBackup with a temporary directory in parent.
func verifyIn(ctx context.Context, parent, file string, with backup.Identities) (m *backup.Manifest, err error) {
	temp, err := os.MkdirTemp(parent, ".signalbox-verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dir := filepath.Join(temp, "data")
	known := func(m *backup.Manifest) error { return checkVersion(ctx, dir, m) }
	if m, err = backup.Verify(ctx, file, dir, with, known); err != nil {
		return nil, err
	}
	return m, openRestored(ctx, dir)
}

// checkVersion refuses a backup whose databases are newer than this program.
func checkVersion(ctx context.Context, dir string, m *backup.Manifest) error {
	c := Config{DataDir: dir}
	c.Broker.Enabled = true
	err := checkDatabases(ctx, c)
	if errors.Is(err, storage.ErrNewer) {
		return fmt.Errorf("the backup was written by a newer release (version %s), whose databases this one does not know: restore it with that release or a later one", m.Version)
	}
	return err
}

// openRestored opens the databases in a directory that is only used for this, so that
// their schemas are brought up to date.
func openRestored(ctx context.Context, dir string) error {
	in, log := func(name string) string { return filepath.Join(dir, name) }, slog.New(slog.DiscardHandler)
	d, err := db.Open(ctx, in(databaseFile), log)
	if err != nil {
		return err
	}
	if d.IsOutdated() { // that of a node; the migrations must succeed here, too
		err = d.Unshare(ctx)
	}
	if err := errors.Join(err, d.Close(ctx)); err != nil {
		return err
	}
	s, err := store.Open(ctx, in(streamsFile), store.Options{Log: log})
	if err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	b, err := bridgestore.Open(ctx, in(bridgesFile), bridgestore.Options{Seal: unsealed{}, Log: log})
	if err != nil {
		return err
	}
	if err := b.Close(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(in(brokerFile)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	a, err := access.Open(ctx, access.Options{Path: in(brokerFile)})
	if err != nil {
		return err
	}
	return a.Close(ctx)
}

// unsealed is in the place of the key, which a backup need not have; opening a database
// neither seals nor unseals.
type unsealed struct{}

// Seal implements bridgestore.Sealer.
func (unsealed) Seal(plain, _ []byte) []byte { return plain }

// Unseal implements bridgestore.Sealer.
func (unsealed) Unseal([]byte, []byte) ([]byte, error) {
	return nil, errors.New("no key is available to verify a backup")
}
