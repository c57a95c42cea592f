package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
)

// completeAt is the position of a replica that is complete and has no changes behind that. One that is not
// complete has none.
const completeAt = firstPosition - 1

// replica is a file with the sessions of another node, as that one stores them.
type replica struct {
	name   replicaName
	path   string
	file   *storage.File
	store  *store.Store
	loaded uint64 // number of the last batch of the state with which it begins
}

// replicaName is the name of a file.
type replicaName struct {
	node   int
	number uint64 // grows with each replica of a node
	stream uint64
}

func (n replicaName) String() string {
	return fmt.Sprintf("node-%d-%d-%016x.db", n.node, n.number, n.stream)
}

// findReplicas returns the replicas in a folder, those of a node in order.
func findReplicas(dir string) (found []replicaName, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of session replicas: %w", err)
	}
	for _, e := range entries {
		var n replicaName
		if _, err := fmt.Sscanf(e.Name(), "node-%d-%d-%x.db", &n.node, &n.number, &n.stream); err == nil && n.String() == e.Name() {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b replicaName) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.number, b.number))
	})
	return found, nil
}

// openReplica opens or creates a replica.
func openReplica(ctx context.Context, dir string, n replicaName, log *slog.Logger) (*replica, error) {
	r := &replica{name: n, path: filepath.Join(dir, n.String())}
	var err error
	if r.file, err = schema.Open(ctx, r.path, slog.New(slog.DiscardHandler)); err != nil {
		return nil, fmt.Errorf("open a replica of sessions: %w", err)
	}
	if r.store, err = store.Open(ctx, r.file, store.Options{Durability: storage.Full, Log: log}); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	return r, nil
}

// is reports whether the replica exists and belongs to a stream.
func (r *replica) is(stream uint64) bool { return r != nil && r.name.stream == stream }

// isComplete reports whether the replica has the state with which it begins.
func (r *replica) isComplete() bool { return r.store.AppliedIndex() >= completeAt }

// load stores a batch of the state with which a replica begins.
func (r *replica) load(stream uint64, b *batch) (status byte, err error) {
	switch {
	case !r.is(stream) || b.first > r.loaded+1:
		return statusUnknown, nil
	case b.last() <= r.loaded:
		return statusDone, nil
	}
	group, err := b.decodeFrom(r.loaded + 1)
	if err != nil {
		return statusRefused, errFormat
	}
	done := make(committed, len(group))
	for _, c := range group {
		c.Done = done
		r.store.Submit(c)
	}
	for range group {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		return statusRefused, err
	}
	r.loaded = b.last()
	return statusDone, nil
}

// committed receives outcomes of changes.
type committed chan error

// Committed implements [engine.CommitNotifier].
func (d committed) Committed(_ *engine.Changes, err error) { d <- err }

// append stores changes that follow those that the replica has.
func (r *replica) append(stream uint64, b *batch) (status byte, err error) {
	if !r.is(stream) {
		return statusUnknown, nil
	}
	applied := r.store.AppliedIndex()
	if b.first > applied+1 {
		return statusUnknown, nil
	}
	group, err := b.decodeFrom(applied + 1)
	if err != nil {
		return statusRefused, errFormat
	}
	if err := r.store.Apply(b.last(), group); err != nil {
		return statusRefused, fmt.Errorf("store changes: %w", err)
	}
	return statusDone, nil
}

// close closes the file.
func (r *replica) close(ctx context.Context) error {
	return errors.Join(r.store.Close(ctx), r.file.Close())
}

// delete closes and deletes the file.
func (r *replica) delete(ctx context.Context) error {
	err := r.close(ctx)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if e := os.Remove(r.path + suffix); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
