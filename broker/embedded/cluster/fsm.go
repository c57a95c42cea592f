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
)

const machineHeader = 1 + 8

var _ raft.BatchingFSM = (*fsm)(nil)

// fsm is raft's state machine: the machine, and the cluster's own state. raft calls its methods
// on one goroutine.
type fsm struct {
	ctx        context.Context // of the machine's longer work
	machine    Machine
	store      *raftlog.Store
	log        *slog.Logger
	notify     func() // called after changes
	state      atomic.Pointer[state]
	applyError atomic.Pointer[ApplyError] // why no further entry is applied

	machineIndex uint64 // Applied of the machine

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

func newFSM(ctx context.Context, n *Node, s *state) *fsm {
	f := &fsm{ctx: ctx, machine: n.options.Machine, store: n.store, log: n.log}
	f.state.Store(s)
	f.machineIndex = f.machine.Applied()
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

// Snapshot returns a snapshot of both states.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if stop := f.applyError.Load(); stop != nil {
		return nil, stop.Err
	}
	m, err := f.machine.Snapshot(f.ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return &fsmSnapshot{ctx: f.ctx, machine: m, header: header{State: *f.state.Load(), Machine: f.machineIndex}}, nil
}

// fsmSnapshot is a snapshot that is about to be written.
type fsmSnapshot struct {
	ctx     context.Context // ends the writing
	header  header
	machine Snapshot
}

// Persist writes the snapshot. raft closes the sink.
func (v *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	return v.write(contextReadWriter{ctx: v.ctx, Writer: sink})
}

func (v *fsmSnapshot) write(w io.Writer) error {
	if err := v.header.write(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if _, err := v.machine.WriteTo(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// Release releases the machine's snapshot.
func (v *fsmSnapshot) Release() { v.machine.Release() }

// Restore restores a snapshot that the leader has sent.
func (f *fsm) Restore(r io.ReadCloser) error {
	if w, ok := r.(raft.ReadCloserWrapper); ok {
		if inner, ok := w.WrappedReadCloser().(*raftlog.SnapshotReader); ok {
			return f.restore(inner.Index, r)
		}
	}
	return errors.New("the snapshot has no metadata")
}

// restore restores the machine first: as long as the cluster's own state is older than the
// snapshot, the node restores the snapshot again when it is opened (see catchUp).
func (f *fsm) restore(index uint64, r io.Reader) error {
	h, err := readHeader(r)
	if err != nil {
		return err
	}
	if err := f.machine.Restore(f.ctx, index, contextReadWriter{ctx: f.ctx, Reader: r}); err != nil {
		return fmt.Errorf("take over a snapshot: %w", err)
	}
	f.machineIndex = index
	h.State.Index = index
	if err := f.storeState(&h.State); err != nil {
		return err
	}
	f.applyError.Store(nil)
	f.advance(index)
	return nil
}

// catchUp restores the latest snapshot unless both states are at least as new, and checks that
// the log has the entries behind them.
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
	if f.state.Load().Index < h.State.Index || f.state.Load().Index == 0 || f.machineIndex < h.Machine {
		return f.restoreAgain(meta.ID)
	}
	f.advance(max(meta.Index, f.machineIndex))
	return nil
}

func (f *fsm) restoreAgain(id string) error {
	meta, r, err := f.store.Open(id)
	if err != nil {
		return err
	}
	defer r.Close()
	return f.restore(meta.Index, r)
}
