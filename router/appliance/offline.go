package appliance

import (
	"context"
	"errors"
	"path/filepath"

	"signalbox/broker"
	"signalbox/broker/embedded/access"
	"signalbox/router/appliance/datadir"
)

// Offline opens the embedded broker's access control while the service does
// not run, passes it to do, and closes it.
func Offline(ctx context.Context, c Config, do func(broker.AccessTransfer) error) error {
	return locked(c, func() error { return openAccess(ctx, c, do) })
}

// openAccess is Offline for a caller that has locked the data directory.
func openAccess(ctx context.Context, c Config, do func(broker.AccessTransfer) error) (err error) {
	d := c.allDatabases()
	d.Databases = []string{brokerFile}
	path := filepath.Join(c.DataDir, brokerFile)
	if err := access.Check(ctx, path); err != nil {
		return err
	}
	if err := d.Check(ctx); err != nil {
		return err
	}
	control, err := access.Open(ctx, access.Options{Path: path, PasswordIterations: c.Broker.PasswordIterations})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, control.Close(ctx)) }()
	if err := do(control); err != nil {
		return err
	}
	return d.Register(ctx)
}

// locked calls do while no service uses the data directory.
func locked(c Config, do func() error) (err error) {
	unlock, err := lockData(c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return do()
}

// ForgetDatabases makes the next start create databases anew that were lost, or removed
// on purpose; see [datadir.Directory.Forget].
func ForgetDatabases(ctx context.Context, c Config, names []string) error {
	return repair(ctx, c, names, datadir.Directory.Forget)
}

// AdoptDatabases makes databases from another directory belong to this one; see
// [datadir.Directory.Adopt].
func AdoptDatabases(ctx context.Context, c Config, names []string) error {
	return repair(ctx, c, names, datadir.Directory.Adopt)
}

func repair(ctx context.Context, c Config, names []string, how func(datadir.Directory, context.Context, []string) error) error {
	return locked(c, func() error { return how(c.allDatabases(), ctx, names) })
}
