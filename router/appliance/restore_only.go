package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/broker/embedded/access"
	"signalbox/broker/storage"
	"signalbox/db"
	"signalbox/handlers/vault"
	"signalbox/router/appliance/backup"
)

// The values of RestoreOptions.Only.
const (
	// OnlyAccess replaces clients, groups, roles and default access of the embedded broker.
	// Bans, sessions and messages are kept.
	OnlyAccess = "access"
	// OnlyStreams replaces streams.db.
	OnlyStreams = "streams"
	// OnlyPlatform replaces signalbox.db, and adds certificates that are missing.
	OnlyPlatform = "platform"
)

// RestoreOnly are the values of RestoreOptions.Only.
var RestoreOnly = []string{OnlyAccess, OnlyStreams, OnlyPlatform}

// previousAccess is the file in which a restore keeps the previous access control.
const previousAccess = "dynamic-security.json"

// errWhole is the remedy if a part of a backup contradicts the rest of the data directory.
var errWhole = errors.New("restore the whole backup, without --only")

// runPart restores a part of the verified backup. Each part is replaced in one step, by a rename or a
// transaction, after the previous one was copied, so an interrupted restore is repeated.
func (r *restore) runPart(ctx context.Context) (err error) {
	partial := r.beside(partialMark)
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	m, err := backup.Extract(ctx, r.file, partial, r.with)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(m, r.manifest) {
		return fmt.Errorf("%s changed while it was restored", r.file)
	}
	if err := r.checkPart(ctx, partial); err != nil {
		return fmt.Errorf("--only %s: %w", r.options.Only, err)
	}
	if r.options.DryRun {
		return nil
	}
	if err := os.Mkdir(r.beside(previousMark), 0o700); err != nil {
		return err
	}
	switch r.options.Only {
	case OnlyAccess:
		return r.replaceAccess(ctx, filepath.Join(partial, brokerFile))
	case OnlyStreams:
		return r.replaceDatabase(ctx, partial, streamsFile)
	}
	if err := copyMissing(filepath.Join(partial, "certs"), filepath.Join(r.dir, "certs")); err != nil {
		return err
	}
	return r.replaceDatabase(ctx, partial, databaseFile)
}

// checkPart refuses a part that would contradict what is kept of the data directory.
func (r *restore) checkPart(ctx context.Context, partial string) error {
	if !r.sameDirectory() {
		return fmt.Errorf("the backup is not one of %s, whose other parts would not fit: %w", r.dir, errWhole)
	}
	switch r.options.Only {
	case OnlyAccess:
		return r.checkAccess()
	case OnlyStreams:
		return checkBrokers(ctx, partial, r.dir, streamsFile)
	}
	if now, err := embedded.ReadCluster(ctx, r.dir); err == nil && now.Shared {
		return errors.New("the data of the platform are shared by the nodes of a cluster (cluster.share_data), from which this node would differ: change them while the cluster runs; " +
			"if all nodes were lost, restore the whole backup with --cluster alone, and create the cluster again")
	}
	if err := r.checkKey(ctx, filepath.Join(partial, databaseFile)); err != nil {
		return err
	}
	if node := r.isNode(); node != r.manifest.Node {
		return fmt.Errorf("the broker has joined or left a cluster since the backup, which the list of clusters in it does not show: %w", errWhole)
	}
	return errors.Join(checkBrokers(ctx, r.dir, partial, streamsFile), checkBrokers(ctx, r.dir, partial, bridgesFile))
}

// isNode reports whether the broker of the data directory is a node of a cluster.
func (r *restore) isNode() bool {
	_, err := os.Stat(filepath.Join(r.dir, clusterFile))
	return err == nil
}

func (r *restore) checkAccess() error {
	if !r.manifest.Has(brokerFile) {
		return errors.New("the backup has no broker.db: the broker was not enabled")
	}
	if r.manifest.Node || r.isNode() {
		return errors.New("the broker is or was a node of a cluster, whose access control the nodes have agreed on: change it with \"signalbox import dynsec --replace\" while the cluster runs, or restore the whole backup with --cluster")
	}
	return nil
}

// checkKey refuses a database whose secrets the present key cannot decrypt.
func (r *restore) checkKey(ctx context.Context, path string) error {
	return db.View(ctx, path, func(d *db.DB) error {
		all, err := d.ListSealed(ctx)
		if err != nil || len(all) == 0 {
			return err
		}
		key, err := vault.Open(filepath.Join(r.dir, keyFile), false)
		if err != nil {
			return err
		}
		for _, s := range all {
			if _, err := key.Unseal(s.Secrets, []byte(s.ID)); err != nil {
				return fmt.Errorf("the secrets in the backup are encrypted with another %s than the present one: %w", keyFile, errWhole)
			}
		}
		return nil
	})
}

// checkBrokers refuses a database in dir that refers to brokers which signalbox.db in platform
// does not have, so that the API does not reach their data.
func checkBrokers(ctx context.Context, dir, platform, name string) error {
	used, err := backup.Brokers(ctx, dir, name)
	if err != nil {
		return err
	}
	known, err := backup.Brokers(ctx, platform, databaseFile)
	if err != nil {
		return err
	}
	used = slices.DeleteFunc(used, func(id string) bool { return slices.Contains(known, id) })
	if len(used) > 0 {
		return fmt.Errorf("%s has data of brokers that %s does not have (%s), because one of them is older: %w", name, databaseFile, strings.Join(used, ", "), errWhole)
	}
	return nil
}

// replaceDatabase puts the database of the backup in the place of the present one.
func (r *restore) replaceDatabase(ctx context.Context, partial, name string) error {
	path, previous := filepath.Join(r.dir, name), r.beside(previousMark)
	if err := r.step("keep the previous " + name); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		// An intact database is complete without its log from here on. Of a damaged one the log is kept.
		err := storage.Checkpoint(ctx, path)
		if err != nil && !errors.Is(err, storage.ErrDamaged) && !errors.Is(err, storage.ErrForeign) {
			return err
		}
	}
	for _, file := range []string{name, name + "-wal"} {
		err := os.Link(filepath.Join(r.dir, file), filepath.Join(previous, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := storage.SyncDir(previous); err != nil {
		return err
	}
	if err := r.step("replace " + name); err != nil {
		return err
	}
	for _, file := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(filepath.Join(partial, name), path); err != nil {
		return err
	}
	return storage.SyncDir(r.dir)
}

// replaceAccess puts the access control in the database at path in the place of the present one,
// in one transaction.
func (r *restore) replaceAccess(ctx context.Context, path string) error {
	document, err := readAccess(ctx, path)
	if err != nil {
		return err
	}
	return openAccess(ctx, Config{DataDir: r.dir}, func(present broker.AccessTransfer) error {
		if err := r.step("keep the previous access control"); err != nil {
			return err
		}
		text, err := present.ExportAccess(ctx)
		if err != nil {
			return err
		}
		err = writeDurably(filepath.Join(r.beside(previousMark), previousAccess), string(text))
		if err := errors.Join(err, storage.SyncDir(r.beside(previousMark))); err != nil {
			return err
		}
		if err := r.step("replace the access control"); err != nil {
			return err
		}
		_, err = present.ImportAccess(ctx, bytes.NewReader(document), true)
		return err
	})
}

// readAccess returns the access control in a database that only this process uses.
func readAccess(ctx context.Context, path string) (document []byte, err error) {
	control, err := access.Open(ctx, access.Options{Path: path})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, control.Close(ctx)) }()
	return control.ExportAccess(ctx)
}
