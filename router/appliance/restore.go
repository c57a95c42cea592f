package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"signalbox/broker/storage"
	"signalbox/db"
	"signalbox/router/appliance/backup"
)

// The names of the directories of a restore, beside the data directory: the one that is
// being written, the same when it is complete, and the previous data.
const (
	partialMark  = ".restore-partial-"
	restoredMark = ".restored-"
	previousMark = ".before-restore-"
)

// Restored is the outcome of a restore.
type Restored struct {
	Manifest *backup.Manifest
	Previous string // where the previous data is; empty if there was none
	NeedsKey bool   // the directory has no secret.key
	KeptKey  bool   // the secret.key is that of the previous data
	NoBroker bool   // the broker starts empty, to join its cluster again
}

// RestoreOptions are those of a restore.
type RestoreOptions struct {
	DryRun bool // change nothing
	// Cluster is what happens to the broker of a backup of a node of a cluster: RestoreRejoin or
	// RestoreAlone. It must be given for such a backup.
	Cluster string
	// Only is the part that is restored, one of RestoreOnly; "" restores everything.
	Only string
}

// The values of RestoreOptions.Cluster.
const (
	// RestoreRejoin leaves the broker's database out: the access control of the backup is not in
	// force for a moment, and the node gets that of the cluster when it joins again.
	RestoreRejoin = "rejoin"
	// RestoreAlone restores the broker's database: all nodes were lost.
	RestoreAlone = "alone"
)

// checkCluster returns an error unless the options say what happens to a node of a cluster.
func (o RestoreOptions) checkCluster(m *backup.Manifest) error {
	switch {
	case o.Only != "" && o.Cluster != "":
		return errors.New("--only: leaves the cluster as it is: leave --cluster out")
	case o.Only != "":
		return nil
	case o.Cluster != "" && o.Cluster != RestoreRejoin && o.Cluster != RestoreAlone:
		return fmt.Errorf("--cluster: must be %s or %s", RestoreRejoin, RestoreAlone)
	case m.Node && o.Cluster == "":
		return fmt.Errorf("the backup is of a node of a cluster, whose other nodes may have later access control: give --cluster %s to restore all but the broker and join again, or --cluster %s if all nodes were lost", RestoreRejoin, RestoreAlone)
	case !m.Node && o.Cluster != "":
		return errors.New("--cluster: the backup is not of a node of a cluster: leave the flag out")
	}
	return nil
}

// Restore puts the content of a backup in the place of the data directory while no
// service uses that, and keeps the previous data beside it. Whenever it is interrupted,
// the directory is either the previous or the restored one, or does not exist, and then
// the next start names both.
func Restore(ctx context.Context, c Config, file string, with backup.Identities, o RestoreOptions) (*Restored, error) {
	return newRestore(c, file, with, o).run(ctx)
}

// restore is a restore that is in progress.
type restore struct {
	file    string
	with    backup.Identities
	options RestoreOptions
	dir     string // absolute
	time    string
	step    func(name string) error // called before each step, for tests

	manifest *backup.Manifest
	existed  bool
	keptKey  bool
}

func newRestore(c Config, file string, with backup.Identities, o RestoreOptions) *restore {
	return &restore{file: file, with: with, options: o, dir: c.DataDir, time: time.Now().UTC().Format("20060102T150405.000Z"),
		step: func(string) error { return nil }}
}

func (r *restore) beside(mark string) string { return r.dir + mark + r.time }

func (r *restore) run(ctx context.Context) (out *Restored, err error) {
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(r.dir); err == nil {
		r.dir = real
	}
	if err := refuseInterrupted(r.dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.dir); err == nil {
		r.existed = true
	} else if r.options.Only != "" {
		return nil, fmt.Errorf("--only: %s does not exist: %w", r.dir, errWhole)
	}
	if r.existed || !r.options.DryRun {
		unlock, err := lockData(r.dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, unlock()) }()
	}
	if err := r.verify(ctx); err != nil {
		return nil, err
	}
	if err := r.options.checkCluster(r.manifest); err != nil {
		return nil, err
	}
	switch {
	case r.options.Only != "":
		err = r.runPart(ctx)
	case !r.options.DryRun:
		err = r.replace(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.outcome(), nil
}

// verify verifies the backup in a directory that the next restore removes if this one is killed.
func (r *restore) verify(ctx context.Context) (err error) {
	left, err := filepath.Glob(globEscaped(r.dir) + partialMark + "*")
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	temp := r.beside(partialMark)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	r.manifest, err = verifyIn(ctx, temp, r.file, r.with)
	return err
}

// globEscaped returns a path as a pattern that matches it only.
func globEscaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func (r *restore) outcome() *Restored {
	out := &Restored{Manifest: r.manifest, KeptKey: r.keptKey, NeedsKey: !r.manifest.Has(backup.KeyName) && !r.keptKey,
		NoBroker: r.options.Cluster == RestoreRejoin}
	if r.existed {
		out.Previous = r.beside(previousMark)
	}
	return out
}

// replace writes the parts beside the data directory and renames both.
func (r *restore) replace(ctx context.Context) error {
	partial := r.beside(partialMark)
	steps := []struct {
		name string
		do   func() error
	}{
		{"extract", func() error { return r.extract(ctx, partial) }},
		{"name the complete directory", func() error { return os.Rename(partial, r.beside(restoredMark)) }},
		{"move the previous directory", func() error { return os.Rename(r.dir, r.beside(previousMark)) }},
		{"move the restored directory", func() error { return os.Rename(r.beside(restoredMark), r.dir) }},
		{"write the names to disk", func() error { return storage.SyncDir(filepath.Dir(r.dir)) }},
	}
	for i, s := range steps {
		err := r.step(s.name)
		if err == nil {
			err = s.do()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("restore %s: %s: %w", r.dir, s.name, err), r.undo(i))
		}
	}
	if r.existed {
		return nil
	}
	// what locking has created
	return errors.Join(os.Remove(filepath.Join(r.beside(previousMark), lockFile)), os.Remove(r.beside(previousMark)))
}

// undo puts the previous directory back after step i has failed.
func (r *restore) undo(i int) error {
	switch i {
	case 0, 1:
		return os.RemoveAll(r.beside(partialMark))
	case 2:
		return os.RemoveAll(r.beside(restoredMark))
	case 3:
		return errors.Join(os.Rename(r.beside(previousMark), r.dir), os.RemoveAll(r.beside(restoredMark)))
	}
	return nil
}

// extract writes the parts to a directory, with the key of the previous data if that is
// the same directory and the backup has none.
func (r *restore) extract(ctx context.Context, partial string) error {
	m, err := backup.Extract(ctx, r.file, partial, r.with)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(m, r.manifest) {
		return fmt.Errorf("%s changed while it was restored", r.file)
	}
	if err := os.Remove(filepath.Join(partial, backup.ConfigName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it is for reading: the service has its configuration elsewhere
	}
	if r.options.Cluster == RestoreRejoin {
		if err := leaveBrokerOut(ctx, partial); err != nil {
			return err
		}
	}
	if r.options.Cluster != "" {
		if err := restoreHost(ctx, partial, r.options.Cluster == RestoreRejoin); err != nil {
			return err
		}
	}
	if !m.Has(backup.KeyName) && r.sameDirectory() {
		text, err := os.ReadFile(filepath.Join(r.dir, keyFile))
		if err == nil {
			r.keptKey = true
			err = writeDurably(filepath.Join(partial, keyFile), string(text))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return storage.SyncDir(partial)
}

// restoreHost has the streams and bridges that nodes shared stay off at the restored node, if other nodes go on with them
// (left), and run there if not.
func restoreHost(ctx context.Context, dir string, left bool) error {
	d, err := db.Open(ctx, filepath.Join(dir, databaseFile), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return errors.Join(d.RestoreHost(ctx, left), d.Close(ctx))
}

// leaveBrokerOut makes the next start create the broker's database anew.
func leaveBrokerOut(ctx context.Context, dir string) error {
	if err := os.Remove(filepath.Join(dir, brokerFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return Config{DataDir: dir}.allDatabases().Forget(ctx, []string{brokerFile})
}

// sameDirectory reports whether the backup is one of the present data directory.
func (r *restore) sameDirectory() bool {
	var present struct{ ID string }
	text, err := os.ReadFile(filepath.Join(r.dir, "identity"))
	return err == nil && json.Unmarshal(text, &present) == nil && present.ID == r.manifest.Directory
}

// refuseInterrupted returns an error if a restore was interrupted between its renames, so
// that the data directory does not exist: a new one must not be created in its place.
func refuseInterrupted(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return nil //nolint:nilerr // the directory is created with its parents, or that fails
	}
	base, restored, previous := filepath.Base(dir), "", ""
	for _, e := range entries { // sorted, so that the newest remains
		if strings.HasPrefix(e.Name(), base+restoredMark) {
			restored = filepath.Join(filepath.Dir(dir), e.Name())
		}
		if strings.HasPrefix(e.Name(), base+previousMark) {
			previous = filepath.Join(filepath.Dir(dir), e.Name())
		}
	}
	if restored == "" {
		return nil
	}
	or := ""
	if previous != "" {
		or = fmt.Sprintf(", or %s to go on with the previous data", previous)
	}
	return fmt.Errorf("data_dir: %s does not exist because a restore was interrupted: rename %s to %s to complete it%s", dir, restored, dir, or)
}
