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

// In syncmode full all nodes store messages with the leader's timestamps, and any of them
// may be the next leader. So they keep the leader's service time, whatever their own clocks
// show: the time left to sessions and messages is the same at the next leader. The time is
// not in the log, where old entries would contain old times; a node asks another one, and
// believes it only if that has the cluster's time. In syncmode hp each node has its own
// service time, and knows the offsets of the others. Between nodes whose releases do not
// report their time the clocks of the machines count.

const (
	askTime      = 'Z' // the service time of a node's database
	timeInterval = 5 * time.Second
	timeTimeout  = time.Second // the times in later responses are too inexact
)

// encodeTime returns the service time of this node, and whether that is the cluster's.
func (m *member) encodeTime() []byte {
	b := binary.BigEndian.AppendUint64([]byte{0}, uint64(m.broker.timeline.Now().UnixMilli()))
	if m.hasClusterTime.Load() {
		b[0] = 1
	}
	return b
}

// nodeTime returns the current service time of a node, and whether that is the cluster's.
func (m *member) nodeTime(ctx context.Context, from cluster.NodeID) (now time.Time, timed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeTimeout)
	defer cancel()
	began := time.Now()
	b, err := m.node.Ask(ctx, from, []byte{askTime})
	if err != nil {
		return now, false, err
	}
	if len(b) != 9 {
		return now, false, errors.New("the response does not contain a time")
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[1:]))).Add(time.Since(began) / 2), b[0] == 1, nil
}

// syncTime measures the service times of other nodes or, in syncmode full, follows the
// leader's, until the context ends.
func (m *member) syncTime(ctx context.Context) {
	again := time.NewTicker(reconcileInterval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		again.Reset(timeInterval)
		switch m.sharing() {
		case sharesRetained:
			m.measureOffsets(ctx)
		case sharesEverything:
			if m.followLeader(ctx); !m.hasClusterTime.Load() {
				again.Reset(reconcileInterval)
			}
		default:
			again.Reset(reconcileInterval)
		}
	}
}

// followLeader adopts the time of the leader, which has it from its predecessor. A leader
// that was just elected has it once it serves.
func (m *member) followLeader(ctx context.Context) {
	leader, known := m.node.Leader()
	if !known || m.node.IsLeader() {
		return
	}
	if now, timed, err := m.nodeTime(ctx, leader); err == nil && timed && !m.node.IsLeader() {
		m.adoptTime(ctx, now)
	}
}

func (m *member) adoptTime(ctx context.Context, now time.Time) {
	before := m.broker.timeline.Now()
	if m.broker.timeline.Follow(ctx, now) {
		m.broker.log.Info("sessions and messages expire by the time of the cluster, from which the clock here differs",
			"by", now.Sub(before).Round(time.Second))
	}
	m.hasClusterTime.Store(true)
}

// clockOffsets are how far the service times of other nodes are ahead of this node's. In
// syncmode hp each node has its own, and messages and sessions are converted by their
// receiver.
type clockOffsets struct {
	nodes atomic.Pointer[map[cluster.NodeID]int64] // never changed in place; nil for none
}

// of returns by how many milliseconds a node is ahead; 0 if that is not known.
func (d *clockOffsets) of(node int) int64 {
	return d.all()[cluster.NodeID(node)]
}

func (d *clockOffsets) all() map[cluster.NodeID]int64 {
	if all := d.nodes.Load(); all != nil {
		return *all
	}
	return nil
}

// set sets the offset of a node, and reports whether it has changed. Differences up to
// clock.Moments count as 0, so that times are not converted between nodes whose clocks
// agree. Only syncTime calls it.
func (d *clockOffsets) set(node cluster.NodeID, ahead time.Duration) (changed bool) {
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

// measureOffsets measures how far the clocks of the other nodes are ahead.
func (m *member) measureOffsets(ctx context.Context) {
	others, _ := m.node.Peers()
	for _, n := range others {
		there, _, err := m.nodeTime(ctx, n.NodeID)
		if err != nil {
			continue
		}
		if ahead := there.Sub(m.broker.timeline.Now()); m.offsets.set(n.NodeID, ahead) {
			m.broker.log.Warn("the clock of another node of the cluster differs; messages and sessions from that node expire when they would there",
				"node", int(n.NodeID), "ahead", ahead.Round(time.Second))
		}
	}
}

// ensureClusterTime makes sure, before this node serves, that it has the cluster's time: a
// node that was elected before it received the previous leader's time asks the others.
func (m *member) ensureClusterTime(ctx context.Context) {
	if m.hasClusterTime.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeTimeout)
	defer cancel()
	info, err := m.node.Info()
	if err == nil {
		for _, n := range info.Nodes {
			if n.NodeID == info.Self {
				continue
			}
			if now, timed, err := m.nodeTime(ctx, n.NodeID); err == nil && timed {
				m.adoptTime(ctx, now)
				return
			}
		}
	}
	m.hasClusterTime.Store(true) // no other node has it either
}

// ClusterPeer is another node of the cluster, as this one reaches it. Ahead is how far its service
// time is ahead of this node's.
type ClusterPeer struct {
	Node    int
	Address string
	Ahead   time.Duration
	Err     error
}

// ClusterPeers asks each other node of the cluster, a second each at most.
func (b *Broker) ClusterPeers(ctx context.Context) (peers []ClusterPeer) {
	if b.cluster == nil {
		return nil
	}
	others, _ := b.cluster.node.Peers()
	for _, n := range others {
		there, _, err := b.cluster.nodeTime(ctx, n.NodeID)
		p := ClusterPeer{Node: int(n.NodeID), Address: n.HostPort(), Err: err}
		if err == nil {
			p.Ahead = there.Sub(b.timeline.Now())
		}
		peers = append(peers, p)
	}
	return peers
}
