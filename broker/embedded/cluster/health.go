package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Problems of a node that takes part in its cluster.
var (
	ErrAppend  = errors.New("the node cannot store the cluster's log")
	ErrLag     = errors.New("the node has yet to apply changes of the cluster")
	ErrLowDisk = errors.New("the disk of the cluster's files is nearly full")
)

// Health is what an operator should know of a node that takes part in its cluster.
type Health struct {
	AppendErr error  // why the log cannot be stored, nil if the last change was stored
	Failures  uint64 // changes of the log that could not be stored since the node was opened
	Lag       uint64 // entries that are committed, as far as the node knows, and not applied here
	DiskFree  int64  // bytes that are free on the disk of the node's files, below 0 if not known
}

// Health returns the health of the node; at rest, only that of its disk.
func (n *Node) Health() Health {
	h := Health{DiskFree: n.options.diskFree(n.options.Dir), Failures: n.figures.appendFailures.Load()}
	if s := n.membership.Load(); s != nil {
		h.AppendErr, h.Lag = s.appendError(), s.lag()
	}
	return h
}

// Healthy returns what keeps the node from working in its cluster: an ErrWaiting, an ErrAppend, an
// ErrLag or an ErrLowDisk, several of them, or nil. It is nil at rest.
func (n *Node) Healthy() error {
	s := n.membership.Load()
	if s == nil {
		return nil
	}
	h, o := n.Health(), n.options
	var errs []error
	if s.fsm.state.Load().Index == 0 {
		errs = append(errs, ErrWaiting)
	}
	if h.AppendErr != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrAppend, h.AppendErr))
	}
	if o.MaxLag > 0 && h.Lag > o.MaxLag {
		errs = append(errs, fmt.Errorf("%w: %d, and %d may be missing (cluster.max_lag)", ErrLag, h.Lag, o.MaxLag))
	}
	if h.DiskFree >= 0 && h.DiskFree < o.MinFreeDisk {
		errs = append(errs, fmt.Errorf("%w: %d bytes are free, and there should be %d (cluster.min_free_disk)", ErrLowDisk, h.DiskFree, o.MinFreeDisk))
	}
	return errors.Join(errs...)
}

// warning returns the clocks that differ, the nodes that run another version, and what the nodes warn
// of themselves. Only a leader knows.
func (s *membership) warning(heard map[memberRef]contact) error {
	var errs []error
	own := s.node.options.Version
	for _, m := range s.others() {
		c, asked := heard[m.ref()]
		if !asked || c.err != nil {
			continue
		}
		if err := skewError(m, c.skew); err != nil {
			errs = append(errs, err)
		}
		if c.Version != "" && own != "" && c.Version != own {
			errs = append(errs, fmt.Errorf("node %d runs version %s, and the leader %s: upgrade all nodes", m.NodeID, c.Version, own))
		}
		if c.Warning != "" {
			errs = append(errs, fmt.Errorf("node %d: %s", m.NodeID, c.Warning))
		}
	}
	if err := s.node.options.Warning(); err != nil {
		errs = append(errs, fmt.Errorf("node %d: %w", s.id.Self.NodeID, err))
	}
	return errors.Join(errs...)
}

// maxSkew is by how much the clocks of two nodes may differ.
const maxSkew = time.Second

// skewError returns an error if the clock of a node differs too much from that of this one.
func skewError(m Member, skew time.Duration) error {
	by := skew.Abs().Round(time.Millisecond)
	switch {
	case skew > maxSkew:
		return fmt.Errorf("the clock of node %d is %v ahead of that of the leader: set both by NTP", m.NodeID, by)
	case skew < -maxSkew:
		return fmt.Errorf("the clock of node %d is %v behind that of the leader: set both by NTP", m.NodeID, by)
	}
	return nil
}

// oneMoreLoss returns an error if the loss of one more voter would stop the cluster, because some do
// not answer, or nodes that joined have no vote yet. Only a leader knows.
func (s *membership) oneMoreLoss() error {
	var away, standby []string
	voters, answering, heard := 1, 1, s.contactsByRef()
	for _, m := range s.others() {
		c, asked := heard[m.ref()]
		role, number := s.role(m), strconv.Itoa(int(m.NodeID))
		switch {
		case !asked:
		case role == RoleStandby:
			standby = append(standby, number)
		case role != RoleVoter:
		case c.err == nil:
			voters++
			answering++
		default:
			voters++
			away = append(away, number)
		}
	}
	switch {
	case answering-1 > voters/2:
	case len(away) > 0:
		return fmt.Errorf("the loss of one more node stops the cluster: %d of its %d voters do not answer (node %s)",
			len(away), voters, strings.Join(away, ", "))
	case len(standby) > 0:
		return fmt.Errorf("the loss of one more voter stops the cluster: node %s has no vote yet, as it does not have all data of the cluster yet",
			strings.Join(standby, ", "))
	}
	return nil
}

// appendError returns why the log, a term or a vote cannot be stored.
func (s *membership) appendError() error {
	if err := s.log.appendError.Load(); err != nil {
		return *err
	}
	return s.node.store.RetriedErr()
}

// lag returns how many entries are committed and not applied here. raft counts an
// entry as applied when it is handed to the machine, and entries that are not
// commands never reach it.
func (s *membership) lag() uint64 {
	committed, applied := max(s.leaderCommit.Load(), s.raft.CommitIndex()), s.raft.AppliedIndex()
	if upTo := s.fsm.appliedIndex(); upTo < s.log.command.Load() {
		applied = min(applied, upTo)
	}
	if committed <= applied {
		return 0
	}
	return committed - applied
}

// raise sets a value that only grows.
func raise(v *atomic.Uint64, to uint64) {
	for old := v.Load(); old < to; old = v.Load() {
		if v.CompareAndSwap(old, to) {
			return
		}
	}
}
