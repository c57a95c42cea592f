package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// The first byte of a command of the log is its addressee. In a command for the machine, the
// term in which it was proposed follows (8 bytes, big endian).
const (
	forMachine = 1
	forCluster = 2
	forShared  = 3
)

const machineHeader = 1 + 8

var _ raft.BatchingFSM = (*fsm)(nil)

// fsm is raft's state machine: the machine, the Shared if the cluster has one, and the cluster's own
// state. raft calls its methods on one goroutine. Each of the three is stored by itself, with an index
// of its own, and skips what it has.
type fsm struct {
	ctx        context.Context // of the machine's longer work
	machine    Machine
	shared     Shared // nil for none
	store      *raftlog.Store
	log        *slog.Logger
	notify     func() // called after changes
	state      atomic.Pointer[state]
	applyError atomic.Pointer[ApplyError] // why no further entry is applied

	machineIndex uint64 // Applied of the machine
	sharedIndex  uint64 // Applied of the Shared

	mu      sync.Mutex // guards the fields below
	applied uint64     // index up to which all commands are applied
	waiting []waiter
}

// waiter waits for an index to be applied.
type waiter struct {
	index uint64
	done  chan struct{}
}

// outcome is the result of a command.
type outcome struct {
	answer any
	err    error
}

func newFSM(ctx context.Context, n *Node, s *state, shares bool) *fsm {
	f := &fsm{ctx: ctx, machine: n.options.Machine, store: n.store, log: n.log}
	f.state.Store(s)
	f.machineIndex = f.machine.Applied()
	if shares {
		f.shared = n.options.Shared
		f.sharedIndex = f.shared.Applied()
	}
	return f
}

// Apply applies one entry of the log. The result is an outcome.
func (f *fsm) Apply(l *raft.Log) any {
	if stop := f.applyError.Load(); stop != nil {
		return outcome{err: unconfirmed(stop.Err)}
	}
	o := f.apply(l)
	if stop, ok := o.answer.(ApplyError); ok {
		f.stopApplying(stop, l.Index)
		return outcome{err: unconfirmed(stop.Err)}
	}
	f.advance(l.Index)
	return o
}

func (f *fsm) apply(l *raft.Log) outcome {
	switch {
	case len(l.Data) >= machineHeader && l.Data[0] == forMachine:
		return f.applyToMachine(l)
	case len(l.Data) > 0 && l.Data[0] == forCluster:
		return f.applyToCluster(l)
	case len(l.Data) > 0 && l.Data[0] == forShared:
		return f.applyToShared(l)
	}
	return outcome{answer: ApplyError{fmt.Errorf("entry %d of the cluster's log is not known to this release", l.Index)}}
}

// applyToMachine skips commands that were proposed in an earlier term. A leader makes commands
// from its state; if another node has led since, the state may have changed.
func (f *fsm) applyToMachine(l *raft.Log) outcome {
	switch {
	case f.state.Load().Dissolved:
		return outcome{err: ErrNotClustered}
	case binary.BigEndian.Uint64(l.Data[1:]) != l.Term:
		return outcome{err: ErrNotLeader}
	case l.Index <= f.machineIndex:
		return outcome{} // applied before the node was opened, so no caller waits
	}
	answer := f.machine.Apply(l.Index, l.Data[machineHeader:])
	if _, stop := answer.(ApplyError); !stop {
		f.machineIndex = l.Index
	}
	return outcome{answer: answer}
}

// applyToCluster stores the new state before it is visible.
func (f *fsm) applyToCluster(l *raft.Log) outcome {
	old := f.state.Load()
	if l.Index <= old.Index {
		return outcome{}
	}
	o, err := decodeOrder(l.Data[1:])
	if err != nil {
		return outcome{answer: ApplyError{err}}
	}
	next, m, refused := old.apply(l.Index, o)
	if refused != nil {
		return outcome{err: refused}
	}
	if err := f.storeState(next); err != nil {
		return outcome{answer: ApplyError{err}}
	}
	f.log.Info("the cluster's members change", "op", o.Op, "node", o.Member.NodeID, "index", l.Index)
	return outcome{answer: m}
}

func (f *fsm) storeState(s *state) error {
	if err := f.store.Update(raftlog.Changes{nameState: s.encode()}); err != nil {
		return err
	}
	f.state.Store(s)
	f.notify()
	return nil
}

// stopApplying makes every later entry fail until the node takes part again.
func (f *fsm) stopApplying(stop ApplyError, index uint64) {
	f.log.Error("the node suspends its participation in the cluster: a command cannot be applied", "index", index, "error", stop.Err)
	f.applyError.Store(&stop)
	f.notify()
}

// advance releases the waiters for everything up to an index.
func (f *fsm) advance(index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = max(f.applied, index)
	kept := f.waiting[:0]
	for _, w := range f.waiting {
		if w.index <= f.applied {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	clear(f.waiting[len(kept):])
	f.waiting = kept
}

// await returns a channel that is closed when everything up to index is applied.
func (f *fsm) await(index uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := waiter{index, make(chan struct{})}
	if index <= f.applied {
		close(w.done)
	} else {
		f.waiting = append(f.waiting, w)
	}
	return w.done
}

// dropWaiter removes a waiter that has stopped waiting.
func (f *fsm) dropWaiter(done <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, w := range f.waiting {
		if w.done == done {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			return
		}
	}
}

// appliedIndex returns the index up to which everything is applied.
func (f *fsm) appliedIndex() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// Snapshot returns a snapshot of everything.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if stop := f.applyError.Load(); stop != nil {
		return nil, stop.Err
	}
	v, err := takeSnapshot(f.ctx, f.machine, f.shared, header{State: *f.state.Load(), Machine: f.machineIndex})
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	if v.header.State.Shared {
		v.header.Shared = f.sharedIndex
	}
	return v, nil
}

// takeSnapshot returns a snapshot of the machine and, if the cluster has one, of the Shared.
func takeSnapshot(ctx context.Context, machine Machine, shared Shared, h header) (v *fsmSnapshot, err error) {
	v = &fsmSnapshot{ctx: ctx, header: h}
	if v.machine, err = machine.Snapshot(ctx); err != nil {
		return nil, err
	}
	if !h.State.Shared {
		return v, nil
	}
	if v.shared, err = shared.Snapshot(ctx); err != nil {
		v.machine.Release()
		return nil, err
	}
	v.header.Schema, _ = shared.Schema()
	return v, nil
}

// fsmSnapshot is a snapshot that is about to be written.
type fsmSnapshot struct {
	ctx     context.Context // ends the writing
	header  header
	machine Snapshot
	shared  Snapshot // nil for none
}

// Persist writes the snapshot. raft closes the sink.
func (v *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	return v.write(contextReadWriter{ctx: v.ctx, Writer: sink})
}

func (v *fsmSnapshot) write(w io.Writer) error {
	if err := v.header.write(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if err := v.writeParts(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

func (v *fsmSnapshot) writeParts(w io.Writer) error {
	if v.shared == nil {
		_, err := v.machine.WriteTo(w)
		return err
	}
	if err := writeSection(w, v.machine); err != nil {
		return err
	}
	return writeSection(w, v.shared)
}

// Release releases the snapshots of the machine and of the Shared.
func (v *fsmSnapshot) Release() {
	v.machine.Release()
	if v.shared != nil {
		v.shared.Release()
	}
}

// Restore restores a snapshot that the leader has sent.
func (f *fsm) Restore(r io.ReadCloser) error {
	if w, ok := r.(raft.ReadCloserWrapper); ok {
		if inner, ok := w.WrappedReadCloser().(*raftlog.SnapshotReader); ok {
			return f.restore(inner.Index, r, everything)
		}
	}
	return errors.New("the snapshot has no metadata")
}

// parts are the parts of a snapshot that are to be restored.
type parts struct{ machine, shared, state bool }

var everything = parts{machine: true, shared: true, state: true}

// restore restores the cluster's own state last: as long as that is older than the snapshot, the
// node restores all of the snapshot again when it is opened (see catchUp).
func (f *fsm) restore(index uint64, r io.Reader, p parts) error {
	h, err := readHeader(r)
	if err != nil {
		return err
	}
	if err := f.restoreParts(index, contextReadWriter{ctx: f.ctx, Reader: r}, p, h.State.Shared); err != nil {
		return fmt.Errorf("take over a snapshot: %w", err)
	}
	h.State.Index = index
	if p.state {
		if err := f.storeState(&h.State); err != nil {
			return err
		}
	}
	f.applyError.Store(nil)
	f.advance(index)
	return nil
}

// restoreParts restores the machine and the Shared of a cluster that has one. If the node stops
// between them, the index of the Shared is older than the header's, unless nothing was applied to it
// since.
func (f *fsm) restoreParts(index uint64, r io.Reader, p parts, shares bool) error {
	machine := func(r io.Reader) error {
		if !p.machine {
			return nil
		}
		err := f.machine.Restore(f.ctx, index, r)
		if err == nil {
			f.machineIndex = index
		}
		return err
	}
	if !shares {
		return machine(r)
	}
	if f.shared == nil {
		return errCannotShare
	}
	if err := readSection(r, machine); err != nil || !p.shared {
		return err
	}
	return readSection(r, func(r io.Reader) error {
		err := f.shared.Restore(f.ctx, index, r)
		if err == nil {
			f.sharedIndex = index
		}
		return err
	})
}

// catchUp restores of the latest snapshot what is older than it, and checks that the log has the
// entries behind it. The cluster's own state is stored last, so all is restored if that is older.
func (f *fsm) catchUp() error {
	all, err := f.store.List()
	if err != nil || len(all) == 0 {
		return err
	}
	meta, r, err := f.store.Open(all[0].ID)
	if err != nil {
		return err
	}
	defer r.Close()
	h, err := readHeader(r)
	if err != nil {
		return err
	}
	older := f.state.Load().Index < h.State.Index || f.state.Load().Index == 0
	p := parts{machine: older || f.machineIndex < h.Machine, shared: h.State.Shared && (older || f.sharedIndex < h.Shared), state: older}
	if p.machine || p.shared {
		return f.restoreAgain(meta.ID, p)
	}
	f.advance(max(meta.Index, f.completeIndex(h.State.Shared)))
	return nil
}

func (f *fsm) restoreAgain(id string, p parts) error {
	meta, r, err := f.store.Open(id)
	if err != nil {
		return err
	}
	defer r.Close()
	return f.restore(meta.Index, r, p)
}
