package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"path/filepath"
	"time"

	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/embedded"
	"signalbox/db"
	"signalbox/handlers/audit"
	"signalbox/handlers/vault"
)

// keyFile is the key of the stored secrets.
const keyFile = "secret.key"

// RotateSecret seals all stored secrets with a new key and returns their number. It may
// be interrupted at any time: a service that starts then works with both keys, and the
// next call continues.
func RotateSecret(ctx context.Context, c Config) (n int, err error) {
	err = locked(c, func() error {
		if err := errors.Join(checkDatabases(ctx, c), c.directory().Check(ctx)); err != nil {
			return err
		}
		if err := c.refuseOutdated(ctx); err != nil {
			return err
		}
		r, err := vault.Rotate(filepath.Join(c.DataDir, keyFile))
		if err != nil {
			return err
		}
		n, err = c.reseal(ctx, r)
		return err
	})
	return n, err
}

// refuseOutdated returns an error if the database cannot be used by this release.
func (c Config) refuseOutdated(ctx context.Context) error {
	d, err := db.Open(ctx, filepath.Join(c.DataDir, databaseFile), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if d.IsOutdated() {
		err = errors.New("the nodes of the cluster have yet to change the shared data to the schema of this release: start the service, and repeat the command when all nodes run the release")
	}
	return errors.Join(err, d.Close(ctx))
}

// reseal executes the steps of a rotation in order: each file is durable before the
// next one, and the old key is deleted last.
func (c Config) reseal(ctx context.Context, r *vault.Rotation) (n int, err error) {
	for _, step := range []func(context.Context, *vault.Rotation) (int, error){
		c.resealConnections, c.resealBridges, c.resealCluster,
		func(context.Context, *vault.Rotation) (int, error) { return 0, r.Commit() },
	} {
		done, err := step(ctx, r)
		if err != nil {
			return 0, fmt.Errorf("rotate %s: %w; the service starts with both keys, and \"signalbox secret rotate\" goes on", keyFile, err)
		}
		n += done
	}
	return n, nil
}

// resealConnections reseals broker connections and the nodes of clusters.
func (c Config) resealConnections(ctx context.Context, r *vault.Rotation) (n int, err error) {
	d, err := db.Open(ctx, filepath.Join(c.DataDir, databaseFile), slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close(ctx)) }()
	all, err := d.ListSealed(ctx)
	if err != nil {
		return 0, err
	}
	for i, s := range all {
		if all[i].Secrets, err = r.Reseal(s.Secrets, []byte(s.ID)); err != nil {
			return 0, fmt.Errorf("secrets of %s: %w", s.ID, err)
		}
	}
	ctx, _ = audit.Start(ctx, audit.Event{Time: time.Now(), ActorKind: "command", ActorName: systemUser(), Operation: "rotateSecret"})
	return len(all), d.PutSealed(ctx, all)
}

// systemUser returns the name of the user of the operating system who runs a command, "" if it
// has none.
func systemUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// resealCluster reseals the key of the embedded broker as a node of a cluster.
func (c Config) resealCluster(ctx context.Context, r *vault.Rotation) (n int, err error) {
	return embedded.ResealCluster(ctx, c.DataDir, r.Reseal)
}

// resealBridges reseals the configurations of bridges.
func (c Config) resealBridges(ctx context.Context, r *vault.Rotation) (n int, err error) {
	v, err := vault.Open(filepath.Join(c.DataDir, keyFile), false)
	if err != nil {
		return 0, err
	}
	s, err := bridgestore.Open(ctx, filepath.Join(c.DataDir, bridgesFile), bridgestore.Options{Seal: v, Now: time.Now})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return s.Reseal(ctx, r.Reseal)
}
