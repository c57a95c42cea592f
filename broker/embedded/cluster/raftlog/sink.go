package raftlog

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"os"

	"github.com/hashicorp/raft"

	"signalbox/broker/storage"
)

// sink is a snapshot that is being written, by one goroutine.
type sink struct {
	store  *Store
	meta   raft.SnapshotMeta
	file   *os.File
	buffer *bufio.Writer // to file and sum
	sum    hash.Hash64
	synced int64 // bytes that are on the disk
	closed bool
}

// syncEvery is how many bytes of a snapshot are written between two syncs. With one sync
// at the end, a concurrent append to the log would wait for all of it.
const syncEvery = 4 << 20

// ID returns the name of the snapshot.
func (k *sink) ID() string { return k.meta.ID }

// Write adds to the contents.
func (k *sink) Write(p []byte) (int, error) {
	n, err := k.buffer.Write(p)
	k.meta.Size += int64(n)
	if err == nil && k.meta.Size-k.synced >= syncEvery {
		k.synced = k.meta.Size
		err = errors.Join(k.buffer.Flush(), k.file.Sync())
	}
	return n, err
}

// Close finishes the snapshot: it is on the disk and in the list when Close returns nil,
// else it is deleted. raft calls Close more than once.
func (k *sink) Close() error {
	if k.closed {
		return nil
	}
	return k.finish(nil)
}

// Cancel deletes the snapshot, unless it is finished.
func (k *sink) Cancel() error {
	if k.closed {
		return nil
	}
	k.closed = true
	defer k.store.unfinished.Delete(k.meta.ID)
	return errors.Join(k.file.Close(), os.Remove(k.file.Name()))
}

// finish syncs the contents before it adds the snapshot to the list, and deletes
// snapshots that are no longer needed.
func (k *sink) finish(c Changes) error {
	if err := k.flush(); err != nil {
		return errors.Join(fmt.Errorf("write a snapshot of the cluster: %w", err), k.Cancel())
	}
	s := k.store
	err := s.transact(func(tx storage.Tx) error {
		return errors.Join(k.insert(tx), tx.Exec(deleteSnapshots, int64(retained)), c.write(tx))
	})
	if err != nil {
		return errors.Join(fmt.Errorf("finish a snapshot of the cluster: %w", err), k.Cancel())
	}
	k.closed = true
	s.unfinished.Delete(k.meta.ID)
	return errors.Join(k.file.Close(), s.deleteOrphans())
}

func (k *sink) flush() error {
	if err := k.buffer.Flush(); err != nil {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	return storage.SyncDir(k.store.dir)
}

func (k *sink) insert(tx storage.Tx) error {
	m := &k.meta
	return tx.Exec(insertSnapshot, m.ID, int64(m.Version), int64(m.Index), int64(m.Term),
		raft.EncodeConfiguration(m.Configuration), int64(m.ConfigurationIndex), m.Size, int64(k.sum.Sum64()))
}
