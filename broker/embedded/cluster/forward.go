package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Forward sends a request to the leader's Serve, here or at another node, and returns its
// response. When Forward returns without an error, this node has applied everything that the
// leader had applied when it responded.
//
// A request goes to the next leader as long as it was not begun. After ErrUnconfirmed it may
// have been done; a *RemoteError is an error of another node's Serve.
func (n *Node) Forward(ctx context.Context, request []byte) ([]byte, error) {
	if len(request) > maxPayload {
		return nil, invalid("a request has at most %d bytes", maxPayload)
	}
	n.figures.forwarded.Add(1)
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	for wait := n.options.Timing.Heartbeat / 64; ; wait = min(2*wait, n.options.Timing.Heartbeat/16) {
		s, err := n.running()
		if err != nil && !notBegun(err) {
			return nil, err
		}
		var answer []byte
		if err == nil {
			answer, err = s.forward(ctx, request)
		}
		if err == nil || !notBegun(err) || s != nil && s.leaderlessTooLong() {
			return answer, err
		}
		pause(ctx, wait)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// leaderlessTooLong reports whether waiting for a leader makes no sense: there has been none for
// Timing.NoLeader, or for half a heartbeat timeout and too few voters respond to elect one.
func (s *membership) leaderlessTooLong() bool {
	l, t := s.observed.Load(), s.node.options.Timing
	if l.NodeID != 0 {
		return false
	}
	since := time.Since(l.since)
	return since > t.NoLeader || since > t.Heartbeat/2 && s.lacksMajority()
}

// majority is what a node without a leader has found out about the other voters.
type majority struct {
	checking  sync.Mutex // held while they are asked
	lacking   atomic.Bool
	checkedAt atomic.Int64 // in nanoseconds since the epoch
}

// lacksMajority reports whether too few voters respond to elect a leader. They are asked once in a
// heartbeat timeout, in which each has to respond; meanwhile the last result holds.
func (s *membership) lacksMajority() bool {
	m, timeout := &s.majority, s.node.options.Timing.Heartbeat
	if time.Since(time.Unix(0, m.checkedAt.Load())) < timeout {
		return m.lacking.Load()
	}
	if !m.checking.TryLock() {
		return false // not known yet
	}
	defer m.checking.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	m.lacking.Store(2*s.countVoters(ctx) <= s.voters())
	m.checkedAt.Store(time.Now().UnixNano())
	return m.lacking.Load()
}

// countVoters returns how many voters respond in time, this node included.
func (s *membership) countVoters(ctx context.Context) int {
	var responding atomic.Int64
	var asked sync.WaitGroup
	for _, m := range append(s.others(), s.id.Self) {
		if s.role(m) != RoleVoter {
			continue
		}
		if m.NodeID == s.id.Self.NodeID {
			responding.Add(1)
			continue
		}
		asked.Go(func() {
			if _, err := s.statusOf(ctx, m); err == nil {
				responding.Add(1)
			}
		})
	}
	asked.Wait()
	return int(responding.Load())
}

// forward passes a request to the current leader.
func (s *membership) forward(ctx context.Context, request []byte) ([]byte, error) {
	m, ok := s.leader()
	if !ok {
		return nil, s.noLeader()
	}
	if m.NodeID == s.id.Self.NodeID {
		return s.node.options.Serve(ctx, m.NodeID, request)
	}
	f, err := s.askLeader(ctx, m, request)
	if err == nil {
		err = f.err()
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrBusy), isRemote(err):
		return nil, err
	default: // there was no connection
		return nil, fmt.Errorf("%w: %w", ErrNoLeader, err)
	}
	if err := s.awaitApplied(ctx, f.number); err != nil {
		return nil, unconfirmed(fmt.Errorf("it is done, but not yet applied here: %w", err))
	}
	return f.payload, nil
}

// askLeader sends a request to a leader. When that stops leading, a connection attempt
// ends at once; a request that was sent waits a little longer, since a leader that has
// transferred its leadership may still answer.
func (s *membership) askLeader(ctx context.Context, m Member, request []byte) (frame, error) {
	l := s.observed.Load()
	if l.Member != m { // observe has not noticed the new leader yet
		return s.conns.ask(ctx, m, callForward, request)
	}
	connecting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	conn, err := s.conns.get(connecting, m)
	if err != nil {
		return frame{}, err
	}
	asking, giveUp := context.WithCancel(ctx)
	defer giveUp()
	defer context.AfterFunc(l.ctx, func() {
		pause(asking, s.node.options.Timing.Heartbeat)
		giveUp()
	})()
	return conn.ask(asking, callForward, request)
}

func isRemote(err error) bool {
	_, ok := errors.AsType[*RemoteError](err)
	return ok
}

// err returns the error that a response carries, nil for none.
func (f frame) err() error {
	switch f.kind {
	case statusOK:
		return nil
	case statusNotLeader:
		return ErrNotLeader
	case statusNoLeader:
		return ErrNoLeader
	case statusNotClustered:
		return ErrNotClustered
	case statusBusy:
		return ErrBusy
	case statusUnconfirmed:
		return ErrUnconfirmed
	}
	return &RemoteError{string(f.payload)}
}

// reply returns the response for the outcome of a request.
func reply(payload []byte, err error) frame {
	f := frame{kind: statusOK, payload: payload}
	if err == nil && len(payload) > maxPayload {
		err = unconfirmed(fmt.Errorf("the answer has %d bytes", len(payload)))
	}
	if err != nil {
		f = frame{kind: statusFailed, payload: []byte(err.Error())}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) { // whatever was done by then
		f = frame{kind: statusUnconfirmed}
	}
	for kind, is := range map[byte]error{
		statusNotLeader: ErrNotLeader, statusNoLeader: ErrNoLeader, statusNotClustered: ErrNotClustered, statusBusy: ErrBusy,
	} {
		if errors.Is(err, is) {
			f = frame{kind: kind}
		}
	}
	if errors.Is(err, ErrUnconfirmed) { // takes precedence over other errors
		f = frame{kind: statusUnconfirmed}
	}
	return f
}

// answer handles a request of another node of a cluster that this one is, or was, in. A node
// that is no longer a member is notified of that and of nothing else.
func (n *Node) answer(ctx context.Context, b *credentials, from *presented, request frame) frame {
	s := n.membership.Load()
	if s == nil || s.credentials != b {
		if request.kind != callDissolved || b.isMember(from) != nil {
			return reply(nil, ErrNotClustered)
		}
		if b.known().has(from.memberRef) { // else an earlier release's authority may have certified anything
			n.setAcknowledged(b.uuid, from.id)
		}
		return reply(nil, n.updateTombstones(ctx)) // the other node will not announce it again
	}
	if request.kind != callStatus && !s.awaitAsked(ctx) {
		return reply(nil, ErrNoLeader)
	}
	switch member := s.trusts(from); {
	case request.kind == callStatus && member:
		return reply(json.Marshal(s.statusFor(from.memberRef)))
	case request.kind == callStatus && s.isRemoved(from.memberRef):
		return reply(json.Marshal(peerStatus{Seeded: true, Removed: true}))
	case !member:
		return reply(nil, errNotMember)
	}
	f := reply(s.answer(ctx, from.memberRef, request))
	f.number = s.fsm.appliedIndex()
	if request.kind == callForward {
		notify(s.awaited)
	}
	return f
}

// statusFor returns this node's status for another node.
func (s *membership) statusFor(from memberRef) peerStatus {
	known := s.fsm.state.Load()
	m, _ := s.leader()
	key, _ := fingerprintOf(s.credentials.own.Load().key) // it could be encoded before
	return peerStatus{
		Key: key, Known: known.Index, Keys: known.Keys,
		Version: s.node.options.Version, Applied: s.fsm.appliedIndex(), Held: s.raft.AppliedIndex(),
		Stored: s.raft.LastIndex(), Leader: m.NodeID, Time: s.node.options.Now().UnixMilli(),
		Seeded: known.Index > 0, Removed: s.isRemoved(from), Warning: inOneLine(s.node.options.Warning()), Formats: s.formats(),
		Lacks: s.node.options.Incomplete(),
	}
}

// isRemoved reports whether a node is no longer a member.
func (s *membership) isRemoved(from memberRef) bool {
	return s.fsm.state.Load().Index > 0 && !s.admits(from)
}

// answer handles a request of a member.
func (s *membership) answer(ctx context.Context, from memberRef, request frame) ([]byte, error) {
	switch request.kind {
	case callForward:
		return s.node.options.Serve(ctx, from.id, request.payload)
	case callAsk:
		return s.node.options.Answer(ctx, from.id, request.payload)
	case callRemove:
		var m Member
		if err := json.Unmarshal(request.payload, &m); err != nil {
			return nil, fmt.Errorf("read which node to remove: %w", err)
		}
		if m.ref() != from { // a node may only request its own removal
			return nil, errNotMember
		}
		return nil, s.remove(ctx, m.NodeID, m.Generation)
	case callRemoved:
		return nil, s.depart(reasonRemoved)
	case callKey:
		var c keyChange
		if err := json.Unmarshal(request.payload, &c); err != nil {
			return nil, fmt.Errorf("read which key to change: %w", err)
		}
		return nil, s.orderKey(ctx, from, c)
	case callDissolved:
		var index uint64
		if err := json.Unmarshal(request.payload, &index); err != nil {
			return nil, fmt.Errorf("read the last command of the cluster: %w", err)
		}
		return nil, s.dissolved(ctx, from, index)
	}
	return nil, fmt.Errorf("request %d is not known to this release", request.kind)
}

// dissolved leaves the dissolved cluster, after the node has applied everything that was
// committed if that arrives in time. A little of the time is reserved for the response.
func (s *membership) dissolved(ctx context.Context, from memberRef, index uint64) error {
	if s.dissolvedAt.Load() < index {
		s.dissolvedAt.Store(index)
	}
	ctx, cancel := context.WithTimeout(ctx, timeLeft(ctx)*4/5)
	defer cancel()
	if err := s.awaitApplied(ctx, index); err != nil && s.fsm.appliedIndex() < index {
		s.node.log.Warn("the cluster was dissolved before this node received all of its changes", "index", index, "applied", s.fsm.appliedIndex())
	}
	s.node.setAcknowledged(s.credentials.uuid, from.id)
	return s.depart(reasonDissolved)
}

// since returns the time since t, 0 for the zero time.
func since(now, at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at))
}
