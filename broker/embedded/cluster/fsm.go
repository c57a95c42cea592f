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

// The first byte of a command of the log says whom it is for. A command for the
// machine has, behind it, the term in which it was made (8 bytes, big endian).
const (
	forMachine = 1
	forCluster = 2
)

const machineHeader = 1 + 8

var _ raft.BatchingFSM = (*fsm)(nil)

// fsm is what raft applies the log to: the machine, and the cluster's own state.
// raft calls its methods on one goroutine.
type fsm struct {
	ctx     context.Context // of the machine's longer work
	machine Machine
	store   *raftlog.Store
	log     *slog.Logger
	nudge   func() // told of changes
	state   atomic.Pointer[state]
	stopped atomic.Pointer[Stop] // why nothing is applied any more

	machineIndex uint64 // of the machine

	mu      sync.Mutex // guards the fields below
	applied uint64     // up to which command all are applied
	waiting []waiter
}

// waiter waits for an index to be applied.
type waiter struct {
	index uint64
	done  chan struct{}
}

// outcome is what came of a command.
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

// Apply applies one entry of the log. An answer is an outcome.
func (f *fsm) Apply(l *raft.Log) any {
	if stop := f.stopped.Load(); stop != nil {
		return outcome{err: unconfirmed(stop.Err)}
	}
	o := f.apply(l)
	if stop, ok := o.answer.(Stop); ok {
		f.halt(stop, l.Index)
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
	return outcome{answer: Stop{fmt.Errorf("entry %d of the cluster's log is not known to this release", l.Index)}}
}

// applyToMachine leaves out what was made in an earlier term. A leader makes
// commands from the state it sees; if there was another leader since, that was
// not the state the command meets.
func (f *fsm) applyToMachine(l *raft.Log) outcome {
	switch {
	case f.state.Load().Dissolved:
		return outcome{err: ErrNotClustered}
	case binary.BigEndian.Uint64(l.Data[1:]) != l.Term:
		return outcome{err: ErrNotLeader}
	case l.Index <= f.machineIndex:
		return outcome{} // applied before the node was opened, so nobody waits
	}
	answer := f.machine.Apply(l.Index, l.Data[machineHeader:])
	if _, stop := answer.(Stop); !stop {
		f.machineIndex = l.Index
	}
	return outcome{answer: answer}
}

// applyToCluster keeps the new state before anybody sees it.
func (f *fsm) applyToCluster(l *raft.Log) outcome {
	old := f.state.Load()
	if l.Index <= old.Index {
		return outcome{}
	}
	o, err := decodeOrder(l.Data[1:])
	if err != nil {
		return outcome{answer: Stop{err}}
	}
	next, m, refused := old.apply(l.Index, o)
	if refused != nil {
		return outcome{err: refused}
	}
	if err := f.keep(next); err != nil {
		return outcome{answer: Stop{err}}
	}
	f.log.Info("the cluster's members change", "op", o.Op, "node", o.Member.NodeID, "index", l.Index)
	return outcome{answer: m}
}

func (f *fsm) keep(s *state) error {
	if err := f.store.Update(raftlog.Changes{keptState: s.encode()}); err != nil {
		return err
	}
	f.state.Store(s)
	f.nudge()
	return nil
}

// halt has nothing applied any more, until the keeper starts the node anew.
func (f *fsm) halt(stop Stop, index uint64) {
	f.log.Error("the node stops, as a change cannot be applied", "index", index, "err", stop.Err)
	f.stopped.Store(&stop)
	f.nudge()
}

// advance tells those who wait that everything up to an index is applied.
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

// await gives a channel that is closed when everything up to index is applied.
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

// forget lets go of a waiter who gave up.
func (f *fsm) forget(done <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, w := range f.waiting {
		if w.done == done {
			f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
			return
		}
	}
}

// upTo gives the index up to which everything is applied.
func (f *fsm) upTo() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// Snapshot takes a view of both states.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if stop := f.stopped.Load(); stop != nil {
		return nil, stop.Err
	}
	m, err := f.machine.Snapshot(f.ctx)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return &view{ctx: f.ctx, machine: m, header: header{State: *f.state.Load(), Machine: f.machineIndex}}, nil
}

// view is a snapshot that is about to be written.
type view struct {
	ctx     context.Context // ends the writing
	header  header
	machine Snapshot
}

// Persist writes the snapshot. raft closes the sink.
func (v *view) Persist(sink raft.SnapshotSink) error {
	return v.write(lasting{ctx: v.ctx, Writer: sink})
}

func (v *view) write(w io.Writer) error {
	if err := v.header.write(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	if _, err := v.machine.WriteTo(w); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// Release lets go of the machine's view.
func (v *view) Release() { v.machine.Release() }

// Restore takes a snapshot over that came from elsewhere.
func (f *fsm) Restore(r io.ReadCloser) error {
	if w, ok := r.(raft.ReadCloserWrapper); ok {
		if inner, ok := w.WrappedReadCloser().(*raftlog.SnapshotReader); ok {
			return f.restore(inner.Index, r)
		}
	}
	return errors.New("the snapshot does not say which it is")
}

// restore takes over the machine's part first: as long as the cluster's own state
// is older than the snapshot, the node takes it over again when it is opened.
func (f *fsm) restore(index uint64, r io.Reader) error {
	h, err := readHeader(r)
	if err != nil {
		return err
	}
	if err := f.machine.Restore(f.ctx, index, lasting{ctx: f.ctx, Reader: r}); err != nil {
		return fmt.Errorf("take over a snapshot: %w", err)
	}
	f.machineIndex = index
	h.State.Index = index
	if err := f.keep(&h.State); err != nil {
		return err
	}
	f.stopped.Store(nil)
	f.advance(index)
	return nil
}

// catchUp takes over the latest snapshot where the node has not done so, or has
// lost it again. It makes sure that the rest is in the log.
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
