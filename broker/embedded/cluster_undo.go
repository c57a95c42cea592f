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
	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/storage"
)

// undoTime is how long a broker that has joined a cluster keeps the access control that it had before.
const undoTime = time.Hour

// keptAccess is the heading, on the first line, of the file that keeps the access control of a broker before it
// joined a cluster. A snapshot follows.
type keptAccess struct {
	ClusterName string    `json:"clustername"`
	At          time.Time `json:"at"`
}

func (m *member) keptPath() string { return filepath.Join(m.dir, "before-join") }

// keepAccess stores the access control, durably, of a broker that is about to join a cluster, for UndoJoin.
func (m *member) keepAccess(ctx context.Context, clustername string) error {
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return nil // the command returns the error
	}
	s, err := m.broker.control.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	if err := writeKept(m.keptPath(), keptAccess{clustername, m.broker.now().UTC()}, s); err != nil {
		return fmt.Errorf("keep the access control of before: %w", err)
	}
	m.forgetKeptAfter(undoTime)
	return nil
}

func writeKept(path string, heading keptAccess, s *access.Snapshot) error {
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

// UndoJoin restores the access control that this broker had before it joined a cluster which it has left. What it
// had joined for longer than undoTime is not undone.
func (m *member) UndoJoin(ctx context.Context, clustername string) error {
	if err := m.reconcile(ctx); err != nil { // so that the access control is this broker's own
		return controlError(err)
	}
	m.transition.Lock()
	defer m.transition.Unlock()
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return control.ErrInCluster
	}
	f, err := os.Open(m.keptPath())
	if errors.Is(err, fs.ErrNotExist) {
		return control.ErrNothingKept
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r := bufio.NewReader(f)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what was kept of the access control: %w", err)
	}
	var kept keptAccess
	if err := json.Unmarshal(line, &kept); err != nil {
		return fmt.Errorf("read what was kept of the access control: %w", err)
	}
	if kept.ClusterName != clustername || m.broker.now().Sub(kept.At) > undoTime {
		return control.ErrNothingKept
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

// forgetKept deletes what keepAccess has stored.
func (m *member) forgetKept() error {
	if err := os.Remove(m.keptPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// forgetKeptAfter deletes what keepAccess has stored after a time: it has hashes of passwords.
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
