package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/storage"
)

// undoTime is how long a broker that has joined a cluster keeps the access control that it had before.
const undoTime = time.Hour

// keptState is the heading, on the first line, of a file that keeps the access control, or the Shared, of a broker
// before it joined a cluster. A snapshot follows. The file of the Shared belongs to that of the access control with
// the same heading, and is stored first.
type keptState struct {
	ClusterName string    `json:"clustername"`
	At          time.Time `json:"at"`
}

func (m *member) keptPath() string { return filepath.Join(m.dir, "before-join") }

func (m *member) keptSharedPath() string { return filepath.Join(m.dir, "before-join-shared") }

// keepState stores the access control and, if that is to be shared, the data of the program, durably, of a broker that is
// about to join a cluster, for UndoJoin.
func (m *member) keepState(ctx context.Context, clustername string, data bool) error {
	shared := m.broker.config.Shared
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) || data && shared == nil {
		return nil // the command returns the error
	}
	heading := keptState{clustername, m.broker.now().UTC()}
	if err := m.forgetKept(); err != nil {
		return err
	}
	if data {
		s, err := shared.Snapshot(ctx)
		if err == nil {
			err = writeKept(m.keptSharedPath(), heading, s)
		}
		if err != nil {
			return fmt.Errorf("keep the data of the platform of before: %w", err)
		}
	}
	s, err := m.broker.control.Snapshot(ctx)
	if err != nil {
		return err
	}
	if err := writeKept(m.keptPath(), heading, s); err != nil {
		return fmt.Errorf("keep the access control of before: %w", err)
	}
	m.forgetKeptAfter(undoTime)
	return nil
}

// writeKept writes a snapshot to a file, and releases it.
func writeKept(path string, heading keptState, s cluster.Snapshot) error {
	defer s.Release()
	partial := path + ".new"
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = json.NewEncoder(w).Encode(heading)
	if err == nil {
		_, err = s.WriteTo(w)
	}
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return storage.SyncDir(filepath.Dir(path))
}

// UndoJoin restores the access control, and the data of the program if they were shared, that this broker had before
// it joined a cluster which it has left. What it had joined for longer than undoTime is not undone.
func (m *member) UndoJoin(ctx context.Context, clustername string) error {
	if err := m.reconcile(ctx); err != nil { // so that the access control is this broker's own
		return controlError(err)
	}
	m.transition.Lock()
	defer m.transition.Unlock()
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return control.ErrInCluster
	}
	kept, r, f, err := openKept(m.keptPath())
	if errors.Is(err, fs.ErrNotExist) {
		return control.ErrNothingKept
	}
	if err != nil {
		return fmt.Errorf("read what was kept of the access control: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	if kept.ClusterName != clustername || m.broker.now().Sub(kept.At) > undoTime {
		return control.ErrNothingKept
	}
	if err := m.restoreKeptShared(ctx, kept); err != nil {
		return fmt.Errorf("restore what was kept of the data of the platform: %w", err)
	}
	m.mu.Lock()
	m.entering = true // the requester may be among those to disconnect
	m.mu.Unlock()
	disconnects, err := m.broker.control.ImportState(ctx, 0, r)
	if err != nil {
		return err
	}
	m.disconnect(disconnects)
	m.broker.log.Info("the broker has its access control of before it joined a cluster again", "cluster", clustername)
	return m.forgetKept()
}

// openKept opens what writeKept has written. The caller closes the file, whose snapshot is read from r.
func openKept(path string) (kept keptState, r *bufio.Reader, f *os.File, err error) {
	if f, err = os.Open(path); err != nil {
		return kept, nil, nil, err
	}
	r = bufio.NewReader(f)
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &kept)
	}
	if err != nil {
		return kept, nil, nil, errors.Join(err, f.Close())
	}
	return kept, r, f, nil
}

// restoreKeptShared restores the data of the program that were kept together with an access control, if any were.
func (m *member) restoreKeptShared(ctx context.Context, together keptState) error {
	kept, r, f, err := openKept(m.keptSharedPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if shared := m.broker.config.Shared; shared != nil && kept.ClusterName == together.ClusterName && kept.At.Equal(together.At) {
		return shared.Restore(ctx, 0, r)
	}
	return nil
}

// forgetKept deletes what keepState has stored: the access control first, without which the rest is not used.
func (m *member) forgetKept() error {
	for _, path := range []string{m.keptPath(), m.keptSharedPath()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// forgetKeptAfter deletes what keepState has stored after a time: it has hashes of passwords.
func (m *member) forgetKeptAfter(d time.Duration) {
	timer := time.AfterFunc(d, func() {
		if err := m.forgetKept(); err != nil {
			m.broker.log.Warn("what was kept of the access control before the broker joined a cluster cannot be deleted", "error", err)
		}
	})
	if former := m.forgetting.Swap(timer); former != nil {
		former.Stop()
	}
}

// forgetKeptInTime is forgetKeptAfter for what an earlier process has kept.
func (m *member) forgetKeptInTime() {
	if info, err := os.Stat(m.keptPath()); err == nil {
		m.forgetKeptAfter(undoTime - time.Since(info.ModTime()))
	}
}
