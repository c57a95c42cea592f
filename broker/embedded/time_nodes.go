package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/embedded/cluster"
)

// In syncmode full all nodes store what the leader has stamped, and one of them goes on
// with it. So they keep the leader's service time, whatever their own clocks show: the
// time left to sessions and messages is the same at the next leader. In syncmode hp each
// node has its own, and knows how far those of the others are ahead. With nodes of
// releases that do not tell their time it is the clocks of the machines that count, as it
// was before.

const (
	askTime      = 'Z' // the service time of a node's database
	timeEvery    = 5 * time.Second
	timePatience = time.Second // longer answers are too inexact
)

// answerTime tells another node the service time here, and whether that is the
// cluster's.
func (m *member) answerTime() []byte {
	b := binary.BigEndian.AppendUint64([]byte{0}, uint64(m.broker.timeline.Now().UnixMilli()))
	if m.timed.Load() {
		b[0] = 1
	}
	return b
}

// askedTime asks a node for its service time now, and whether that is the cluster's.
func (m *member) askedTime(ctx context.Context, from cluster.NodeID) (now time.Time, timed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timePatience)
	defer cancel()
	began := time.Now()
	b, err := m.node.Ask(ctx, from, []byte{askTime})
	if err != nil {
		return now, false, err
	}
	if len(b) != 9 {
		return now, false, errors.New("its time cannot be understood")
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))).Add(time.Since(began) / 2), b[0] == 1, nil
}

// keepTime has a node that does not lead keep the leader's time, until the context ends.
func (m *member) keepTime(ctx context.Context) {
	again := time.NewTicker(followEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		again.Reset(timeEvery)
		switch m.sharing() {
		case sharesRetained:
			m.compareTimes(ctx)
		case sharesEverything:
			if m.followLeader(ctx); !m.timed.Load() {
				again.Reset(followEvery)
			}
		default:
			again.Reset(followEvery)
		}
	}
}

// followLeader takes over the time of the leader, which has it from the one before. Of one
// that has just been elected that is true once it has begun to serve.
func (m *member) followLeader(ctx context.Context) {
	leader, known := m.node.Leader()
	if !known || m.node.IsLeader() {
		return
	}
	if now, timed, err := m.askedTime(ctx, leader); err == nil && timed && !m.node.IsLeader() {
		m.followTime(ctx, now)
	}
}

func (m *member) followTime(ctx context.Context, now time.Time) {
	before := m.broker.timeline.Now()
	if m.broker.timeline.Follow(ctx, now) {
		m.broker.log.Info("sessions and messages expire by the time of the cluster, from which the clock here differs",
			"by", now.Sub(before).Round(time.Second))
	}
	m.timed.Store(true)
}

// differences are how far the service times of other nodes are ahead of that here. In
// syncmode hp each node has its own, and messages and sessions are translated where they
// arrive.
type differences struct {
	nodes atomic.Pointer[map[cluster.NodeID]int64] // never changed in place; nil for none
}

// of returns how many milliseconds a node is ahead; 0 while that is not known.
func (d *differences) of(node int) int64 {
	return d.all()[cluster.NodeID(node)]
}

func (d *differences) all() map[cluster.NodeID]int64 {
	if all := d.nodes.Load(); all != nil {
		return *all
	}
	return nil
}

// note notes the difference of a node, and reports whether it has changed. Moments are
// none, so that times go from node to node as they are where clocks agree. Only keepTime
// calls it.
func (d *differences) note(node cluster.NodeID, ahead time.Duration) (changed bool) {
	ms := ahead.Milliseconds()
	if ahead.Abs() <= clock.Moments {
		ms = 0
	}
	next := maps.Clone(d.all())
	if by := time.Duration(ms-next[node]) * time.Millisecond; by == 0 || ms != 0 && by.Abs() <= clock.Moments {
		return false
	}
	if next == nil {
		next = map[cluster.NodeID]int64{}
	}
	next[node] = ms
	d.nodes.Store(&next)
	return true
}

// compareTimes finds out how far the clocks of the other nodes are ahead.
func (m *member) compareTimes(ctx context.Context) {
	for _, n := range m.node.Peers() {
		there, _, err := m.askedTime(ctx, n.NodeID)
		if err != nil {
			continue
		}
		if ahead := there.Sub(m.broker.timeline.Now()); m.ahead.note(n.NodeID, ahead) {
			m.broker.log.Warn("the clock of another node of the cluster differs; messages and sessions that come from there live as long as there",
				"node", int(n.NodeID), "ahead", ahead.Round(time.Second))
		}
	}
}

// agreeOnTime makes sure, before this node serves, that it has the cluster's time: one that
// was elected before it heard the leader before asks the others.
func (m *member) agreeOnTime(ctx context.Context) {
	if m.timed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timePatience)
	defer cancel()
	info, err := m.node.Info()
	if err == nil {
		for _, n := range info.Nodes {
			if n.NodeID == info.Self {
				continue
			}
			if now, timed, err := m.askedTime(ctx, n.NodeID); err == nil && timed {
				m.followTime(ctx, now)
				return
			}
		}
	}
	m.timed.Store(true) // nobody knows better
}
