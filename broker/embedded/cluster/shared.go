package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// MaxSharedEntry is the greatest length of an entry for a Shared, in bytes.
const MaxSharedEntry = 8 << 20

// Shared is a second state machine behind the same log: a database of the program, apart from the
// machine's file. Whether a cluster has it is set when the cluster is created (Spec.Shared). A
// cluster without it ignores Options.Shared. All methods except Applied are called by one goroutine
// at a time, without locks.
type Shared interface {
	// Apply applies an entry of at most MaxSharedEntry bytes and returns its result, which must
	// depend only on the content and the entry; the node that proposed it receives the result. The
	// change and its index are stored atomically; they need not be on the disk before Flush, because
	// what a loss of power undoes is applied again. An index that was applied before is ignored. After an error
	// nothing has changed, and the node suspends its participation, as after an ApplyError.
	Apply(ctx context.Context, index uint64, entry []byte) (result []byte, err error)

	// Flush brings what was applied to the disk. It is called before the node, at rest, deletes its log,
	// and again after an error.
	Flush(ctx context.Context) error

	// Applied returns the index of the last entry that was applied, or of the snapshot that was
	// restored since. It does not change with entries for the machine.
	Applied() uint64

	// Schema returns the version of the schema of the content, and that of content that is not shared
	// here. An entry may change the former on all nodes. A snapshot with an earlier one cannot be restored
	// where the content is not shared yet, so each node takes one after such a change.
	Schema() (stored, own int64)

	// Snapshot returns the whole content, of one moment, which later entries do not change.
	Snapshot(ctx context.Context) (Snapshot, error)

	// Restore replaces the whole content by a snapshot, and Applied by index, whatever it was. The
	// result is on the disk when it returns nil; otherwise nothing has changed. It need not read r
	// to its end.
	Restore(ctx context.Context, index uint64, r io.Reader) error
}

var (
	errNotShared = errors.New("the cluster was created without the data of the platform, so it cannot store them: change them at each node")

	errCannotShare = errors.New("the cluster shares the data of the platform (users, projects, connections), which this broker does not: " +
		"set cluster.share_data to true here, and use the release of the other nodes")

	errPeerCannotShare = errors.New("it does not share the data of the platform (users, projects, connections) as this cluster does: " +
		"set cluster.share_data to true there, use this release, and it is let in")
)

// formats returns the highest format of the cluster's state with which this node can take part. One
// that was not invited to share anything must not have its Shared replaced.
func (s *membership) formats() int {
	if s.fsm.shared == nil {
		return keyedFormat
	}
	return sharedFormat
}

// checkShared returns an error if a cluster shares what this node does not have.
func (n *Node) checkShared(shares bool) error {
	if shares && n.options.Shared == nil {
		return errCannotShare
	}
	return nil
}

// cannotShare returns why a node that has answered must not be let into the cluster, nil if it may.
func (s *state) cannotShare(st peerStatus) error {
	if s.Shared && st.Formats < sharedFormat {
		return errPeerCannotShare
	}
	return nil
}

// ProposeShared replicates an entry for the Shared, and waits until this node, the leader, has
// applied it. It returns the result of Apply. The entry is applied in whatever term it enters the
// log. After ErrUnconfirmed it may have been applied, or may still be; after any other error nothing
// has happened.
func (n *Node) ProposeShared(ctx context.Context, entry []byte) (result []byte, err error) {
	s, err := n.running()
	if err != nil {
		return nil, err
	}
	switch {
	case s.raft.State() != raft.Leader:
		return nil, s.notLeader() // its state may be that of a node that waits to be admitted
	case !s.fsm.state.Load().Shared:
		return nil, errNotShared
	case len(entry) > MaxSharedEntry:
		return nil, invalid("a change to the data of the platform has %d bytes, and may have %d", len(entry), MaxSharedEntry)
	}
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	answer, _, err := s.propose(ctx, append([]byte{forShared}, entry...), time.Now())
	result, _ = answer.([]byte)
	return result, err
}

// LastRemoval returns the index of the log at which the last node was removed from the cluster, or
// invited anew, as far as this node knows; 0 if none was, if the cluster has no Shared, and at rest.
func (n *Node) LastRemoval() uint64 {
	s := n.membership.Load()
	if s == nil {
		return 0
	}
	return s.fsm.state.Load().Removal
}

// applyToShared applies an entry to the Shared.
func (f *fsm) applyToShared(l *raft.Log) outcome {
	known := f.state.Load()
	switch {
	case known.Dissolved:
		return outcome{err: ErrNotClustered}
	case !known.Shared || f.shared == nil:
		return outcome{answer: ApplyError{fmt.Errorf("apply entry %d of the cluster's log: %w", l.Index, errCannotShare)}}
	case l.Index <= f.sharedIndex:
		return outcome{} // applied before the node was opened, so no caller waits
	}
	result, err := f.shared.Apply(context.WithoutCancel(f.ctx), l.Index, l.Data[1:]) // a node that stops must not take that for a failure
	if err != nil {
		return outcome{answer: ApplyError{err}}
	}
	f.sharedIndex = l.Index
	return outcome{answer: result}
}

// flushShared brings the content of the Shared to the disk, before the log is deleted that has it.
func (f *fsm) flushShared(ctx context.Context) error {
	if f.shared == nil {
		return nil
	}
	return f.shared.Flush(ctx)
}

// completeIndex returns an index up to which everything is applied to both machines, as far as
// their own indices show.
func (f *fsm) completeIndex(shared bool) uint64 {
	if !shared {
		return f.machineIndex
	}
	return min(f.machineIndex, f.sharedIndex)
}
