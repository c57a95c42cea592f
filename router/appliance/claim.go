package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/embedded/access"
	"signalbox/broker/streams/store"
	"signalbox/db"
	"signalbox/router/appliance/datadir"
)

// claim checks, before anything is changed, that no other process uses the data
// directory or our ports, that certificates can be read, and that the databases are
// writable and not newer than the program. It locks the data directory.
func claim(ctx context.Context, c Config, undo *cleanup) error {
	lock := func() error {
		unlock, err := lockData(c.DataDir)
		if err == nil {
			undo.add(unlock)
		}
		return err
	}
	steps := []func() error{lock, func() error { return errors.Join(portsFree(c), checkFiles(c)) }}
	if _, err := os.Stat(c.DataDir); errors.Is(err, os.ErrNotExist) {
		slices.Reverse(steps) // so that a refusal leaves no directory behind
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := checkDatabases(ctx, c); err != nil {
		return err
	}
	return c.directory().Check(ctx)
}

// directory returns the data directory with the databases of this configuration.
func (c Config) directory() datadir.Directory {
	d := c.allDatabases()
	switch {
	case !c.Broker.Enabled:
		d.Databases = d.Databases[:3]
	case c.Cluster.Listen == "":
		d.Databases = d.Databases[:4]
	}
	return d
}

// allDatabases returns the data directory with every possible database that must not be
// lost, so without the metric history.
func (c Config) allDatabases() datadir.Directory {
	return datadir.Directory{
		Path:      c.DataDir,
		Databases: []string{databaseFile, streamsFile, bridgesFile, brokerFile, clusterFile},
		HadBroker: func(ctx context.Context) (bool, error) {
			return db.HasEmbedded(ctx, filepath.Join(c.DataDir, databaseFile))
		},
	}
}

// checkFiles reads the files that the configuration names.
func checkFiles(c Config) error {
	err := c.HTTP.Check()
	if c.Broker.Enabled {
		err = errors.Join(err, c.Broker.Check())
	}
	return err
}

func checkDatabases(ctx context.Context, c Config) error {
	var errs []error
	for _, name := range c.directory().Databases {
		errs = append(errs, checkDatabase(ctx, c, name))
	}
	return errors.Join(errs...)
}

// checkDatabase returns why a database could not be opened; that of a cluster is checked when it is.
func checkDatabase(ctx context.Context, c Config, name string) error {
	check := map[string]func(context.Context, string) error{
		databaseFile: db.Check, streamsFile: store.Check, bridgesFile: bridgestore.Check, brokerFile: access.Check,
	}[name]
	if check == nil {
		return nil
	}
	return check(ctx, filepath.Join(c.DataDir, name))
}

// lockFile is locked by the process that uses the data directory.
const lockFile = "signalbox.lock"

// ErrRunning means that another process uses the data directory.
var ErrRunning = errors.New("another signalbox is running")

// lockData creates the data directory and locks it.
func lockData(dir string) (unlock func() error, err error) {
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	held := false
	if err := refuseInterrupted(dir); err != nil {
		return nil, err
	}
	if err = os.MkdirAll(dir, 0o700); err == nil {
		held, err = lock.TryLock()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("data_dir: %w; make it writable, or configure another directory", err)
	case !held:
		return nil, fmt.Errorf("data_dir: %w on %s; stop it, or configure another directory", ErrRunning, dir)
	}
	return lock.Unlock, nil
}

// isLocked reports whether a process uses the data directory. It creates nothing.
func isLocked(dir string) (bool, error) {
	path := filepath.Join(dir, lockFile)
	if _, err := os.Stat(path); err != nil {
		return false, err
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryLock()
	if err != nil || !free {
		return err == nil, err
	}
	return false, lock.Unlock()
}

// portsFree returns an error if another process uses a port of ours.
func portsFree(c Config) error {
	try := func(key, address string) error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w; stop what holds the port, or configure another address", key, err)
		}
		return l.Close()
	}
	var errs []error
	for _, a := range c.addresses() {
		errs = append(errs, try(a.key, a.address))
	}
	return errors.Join(errs...)
}
