package embedded

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/engine"
)

// drainTask drains this node while it goes on running. It is in memory only: a node is usually drained
// to be stopped, and accepts clients when it is back.
type drainTask struct {
	on     atomic.Bool
	mu     sync.Mutex // guards what follows; held while the task begins or ends
	cancel context.CancelFunc
	done   chan struct{} // closed when the task has ended; nil for none
}

func (d *drainTask) isOn() bool { return d.on.Load() }

// begin starts the task unless it runs, if allowed returns no error. Other nodes learn that this one
// is drained before that is called, so of two nodes that ask each other at most one is.
func (d *drainTask) begin(allowed func() error, run func(context.Context)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		return nil
	}
	d.on.Store(true)
	if err := allowed(); err != nil {
		d.on.Store(false)
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel, d.done = cancel, make(chan struct{})
	done := d.done
	go func() {
		defer close(done)
		run(ctx)
	}()
	return nil
}

// end ends the task and waits for its end. It reports whether there was one.
func (d *drainTask) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		return false
	}
	d.cancel()
	<-d.done
	d.done = nil
	d.on.Store(false)
	return true
}

// DrainNode leaves the clients of this node to the other nodes.
func (m *member) DrainNode(ctx context.Context, clustername string) error {
	if err := m.checkName(clustername); err != nil {
		return err
	}
	switch s := m.sharing(); {
	case s == sharesNothing:
		return control.ErrNoDrain
	case s == sharesRetained && m.peering.Load() == nil: // the node has just started
		return control.ErrNoLeader
	}
	return m.drained.begin(func() error {
		switch {
		case m.broker.life.isClosing(): // it has ended the task already, or is about to
			return control.ErrNoLeader
		case len(m.acceptingPeers(ctx)) == 0:
			return control.ErrNoOther
		}
		m.broker.engine.Refer(m.clientAddresses(ctx))
		if m.sharing() == sharesRetained { // else it serves the clients for as long as it leads
			m.broker.engine.Divert(isAdministrator)
		}
		return nil
	}, m.keepDrained)
}

// isAdministrator reports whether a client may drain a node, and undo that: it can connect to a node
// that is drained.
func isAdministrator(r engine.Rights) bool { return r.Allowed(engine.Send, control.HATopic) }

// UndrainNode accepts clients again.
func (m *member) UndrainNode(_ context.Context, clustername string) error {
	if err := m.checkName(clustername); err != nil {
		return err
	}
	m.undrain()
	return nil
}

func (m *member) undrain() {
	if m.drained.end() {
		m.broker.log.Info("the node is no longer drained, and accepts clients again")
	}
}

// redrainInterval is how often a drained node looks for sessions that could not be moved, or have
// arrived since.
const redrainInterval = time.Second

// keepDrained hands over the leadership and moves the sessions of this node, and repeats that until
// its context ends.
func (m *member) keepDrained(ctx context.Context) {
	b := m.broker
	b.log.Info("the node is drained: it leaves its clients to the other nodes")
	defer m.acceptClients()
	again := time.NewTicker(redrainInterval)
	defer again.Stop()
	for total, more := 0, true; ; {
		if m.node.IsLeader() {
			accepting, _ := m.voters(ctx)
			m.transferLeadership(ctx, accepting)
		}
		if t := m.peering.Load(); t != nil {
			moved, _ := m.moveSessions(ctx, t)
			total += moved
		}
		left := b.engine.Divertible()
		if left == 0 && more {
			b.log.Info("the drained node has no sessions any more", "moved", total)
		}
		more = left > 0
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// acceptClients accepts clients, and sessions of other nodes that are drained or stop.
func (m *member) acceptClients() {
	m.broker.engine.Divert(nil)
	if t := m.peering.Load(); t != nil {
		t.claims.EndDrain()
	}
}

// peersTimeout bounds how long a node waits for the responses of others.
const peersTimeout = time.Second

// peerResponse is the response of another node, or why there is none.
type peerResponse struct {
	from cluster.NodeID
	body []byte
	err  error
}

// askPeers sends a request to all other nodes at the same time, and returns the responses in order of
// the nodes.
func (m *member) askPeers(ctx context.Context, request byte) []peerResponse {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	nodes, _ := m.node.Peers()
	responses := make([]peerResponse, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			b, err := m.node.Ask(ctx, n.NodeID, []byte{request})
			responses[i] = peerResponse{n.NodeID, b, err}
		})
	}
	asked.Wait()
	return responses
}

// acceptingPeers returns the other nodes that respond and are not drained. Nodes of an older release
// do not know the request, and cannot be drained.
func (m *member) acceptingPeers(ctx context.Context) (nodes []cluster.NodeID) {
	for _, r := range m.askPeers(ctx, askDrained) {
		_, refused := errors.AsType[*cluster.RemoteError](r.err)
		if refused || r.err == nil && string(r.body) != isDrained {
			nodes = append(nodes, r.from)
		}
	}
	return nodes
}

// isDrained is the response to askDrained of a node that refuses clients.
const isDrained = "\x01"

// refusesClients reports whether this node is drained or about to stop.
func (m *member) refusesClients() bool { return m.drained.isOn() || m.broker.life.isClosing() }

// encodeDrained returns the response to askDrained.
func (m *member) encodeDrained() []byte {
	if m.refusesClients() {
		return []byte(isDrained)
	}
	return nil
}

// clientAddress returns the address at which clients reach this node, "" while it refuses them.
func (m *member) clientAddress() string {
	if m.refusesClients() {
		return ""
	}
	return m.broker.config.Cluster.ClientAddress
}

// clientAddresses returns the addresses at which clients reach the other nodes, of those that
// respond and have one configured, separated by spaces.
func (m *member) clientAddresses(ctx context.Context) string {
	var all []string
	for _, r := range m.askPeers(ctx, askAddress) { // an older release does not know the request
		if address := string(r.body); r.err == nil && validateClientAddress(address) == nil {
			all = append(all, address)
		}
	}
	return strings.Join(all, " ")
}
