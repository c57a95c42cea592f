package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
)

// keep stores, durably, what the cluster that this broker is about to join replaces: its access control, in syncmode
// full its sessions and messages, in syncmode hp its retained messages, and the data of the program, if the cluster
// shares them. The caller holds transition.
func (m *member) keep(ctx context.Context, spec cluster.Spec, data bool) error {
	shared := m.broker.config.Shared
	if _, err := m.node.Info(); !errors.Is(err, cluster.ErrNotClustered) || data && shared == nil {
		return nil // the command returns the error
	}
	s, err := machine{m}.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	heading := keptHeading{
		Format: keptFormat, ClusterName: spec.Name, SyncMode: spec.SyncMode,
		At: m.broker.now().UTC(), Service: m.broker.timeline.Now().UnixMilli(),
	}
	err = m.broker.kept.write(heading, s, func() error {
		if !data {
			return nil
		}
		s, err := shared.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer s.Release()
		return m.broker.kept.writeFile(keptData, heading, s)
	})
	if err != nil {
		return fmt.Errorf("keep what the broker has, for the case that the join is undone: %w", err)
	}
	return nil
}

// UndoJoin restores what this broker had before it joined a cluster which it has left. What it had joined for longer
// than undoTime is not undone. An undo that was begun is completed, also by the next process.
func (c commander) UndoJoin(ctx context.Context, clustername string) error {
	ctx = context.WithoutCancel(ctx)
	if err := c.reconcile(ctx); err != nil { // so that what is to be replaced is this broker's own
		return controlError(err)
	}
	c.transition.Lock()
	defer c.transition.Unlock()
	if _, err := c.node.Info(); !errors.Is(err, cluster.ErrNotClustered) {
		return control.ErrInCluster
	}
	if err := c.mayUndo(clustername); err != nil {
		return err
	}
	c.mu.Lock()
	c.entering = true // the requester may be among those to disconnect
	c.mu.Unlock()
	if err := c.broker.kept.rename(keptReplaced, keptUndoing); err != nil {
		return err
	}
	c.undoing = true
	return c.detach(ctx)
}

// mayUndo refuses to undo the join of a cluster unless what the broker had before is kept.
func (c commander) mayUndo(clustername string) error {
	r, err := c.broker.kept.open(keptReplaced)
	if errors.Is(err, fs.ErrNotExist) {
		return control.ErrNothingKept
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if r.ClusterName != clustername || c.broker.now().Sub(r.At) > undoTime {
		return control.ErrNothingKept
	}
	return c.mayCommand(syncModes[r.SyncMode])
}

// completeUndo restores what the broker had before it joined a cluster, if that was begun. Until it succeeds the
// broker does not serve from what it has. The caller holds transition, or has not started the broker.
func (m *member) completeUndo(ctx context.Context) error {
	if !m.undoing {
		return nil
	}
	r, err := m.broker.kept.open(keptUndoing)
	if errors.Is(err, fs.ErrNotExist) { // an operator has deleted it
		m.undoing = false
		return nil
	}
	if err == nil {
		err = m.restoreKept(ctx, r)
		r.Close()
	}
	if err != nil {
		return fmt.Errorf("the broker cannot restore what it had before it joined a cluster (if that stays so, delete %s: "+
			"the broker goes on with what it has from the cluster): %w", m.broker.kept.path(keptUndoing), err)
	}
	if err := m.broker.kept.forget(); err != nil {
		return err
	}
	m.undoing = false
	m.broker.log.Info("the broker has what it had before it joined a cluster again", "cluster", r.ClusterName)
	return nil
}

// restoreKept restores the data of the program and the messages first, and the access control last. It can be
// repeated after a crash.
func (m *member) restoreKept(ctx context.Context, r *keptReader) error {
	if err := m.restoreData(ctx, r); err != nil {
		return err
	}
	holds, err := r.ReadByte()
	if err != nil {
		return err
	}
	switch holds {
	case holdsEverything:
		err = m.restoreEverything(ctx, r)
	case holdsRetained:
		err = m.restoreRetained(ctx, r)
	}
	if err != nil {
		return err
	}
	disconnects, err := m.broker.control.ImportState(ctx, 0, r)
	if err == nil {
		m.disconnect(disconnects)
	}
	return err
}

// restoreData restores the data of the program that were kept together with the rest, if any were.
func (m *member) restoreData(ctx context.Context, together *keptReader) error {
	r, err := m.broker.kept.open(keptData)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if shared := m.broker.config.Shared; shared != nil && r.keptHeading == together.keptHeading {
		if err := m.endShared(ctx); err != nil {
			return err
		}
		return shared.Restore(ctx, 0, r)
	}
	return nil
}

// restoreEverything replaces sessions and messages, while clients are left to other servers. The service time, which was the
// cluster's, goes on from what it was, so that they have the time left that they had.
func (m *member) restoreEverything(ctx context.Context, r *keptReader) error {
	if err := m.changeTo(ctx, waiting); err != nil {
		return err
	}
	m.broker.timeline.Follow(ctx, time.UnixMilli(r.Service).Add(m.broker.now().Sub(r.At)))
	_, err := m.broker.store.Restore(ctx, partialIndex, store.Everything, r, m.broker.engine.NextMessageID)
	return err
}

// retainedAtOnce is how many retained messages are stored by one transaction.
const retainedAtOnce = 1024

// restoreRetained replaces the retained messages but those that were published since: clients of this broker may have
// published them. Meanwhile retained messages are refused, and clients stay connected.
func (m *member) restoreRetained(ctx context.Context, r *keptReader) error {
	before, err := store.ReadRetained(ctx, r)
	if err != nil {
		return err
	}
	if err := m.broker.store.Attach(ctx, store.RetainedOnly); err != nil {
		return err
	}
	if err := m.changeTo(ctx, meshed); err != nil {
		return err
	}
	for changes := range slices.Chunk(m.differences(before, r.Service), retainedAtOnce) {
		err := m.broker.engine.ApplyRetained(changes, func(c *engine.Changes) error {
			return m.broker.store.Apply(m.broker.store.AppliedIndex()+1, []*engine.Changes{c})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// differences returns what turns the present retained messages into earlier ones, except for those that were
// published after a time.
func (m *member) differences(before []*engine.Message, after int64) (changes []engine.RetainedRecord) {
	earlier := make(map[string]*engine.Message, len(before))
	for _, r := range before {
		earlier[r.Topic] = r
	}
	_, present := m.broker.engine.Retained("", 0, -1)
	for _, r := range present {
		switch {
		case strings.HasPrefix(r.Topic, "$SYS/"): // the broker's own status
		case r.CreatedAt > after:
			delete(earlier, r.Topic)
		case earlier[r.Topic] == nil:
			changes = append(changes, engine.RetainedRecord{Topic: r.Topic})
		}
	}
	for _, r := range before {
		if earlier[r.Topic] != nil {
			changes = append(changes, engine.RetainedRecord{Topic: r.Topic, Message: r})
		}
	}
	return changes
}
