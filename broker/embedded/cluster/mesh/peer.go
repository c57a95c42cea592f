package mesh

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/engine"
)

// peer is another node: the link to it and the receiver of its connections.
type peer struct {
	mesh           *Mesh
	id             int
	generation     uint64
	handle         *engine.Peer
	link           *link
	receiver       *receiver
	readyOnce      sync.Once
	ready          chan struct{} // closed when routes were received, or after startupWindow without contact
	routesReceived atomic.Bool   // since this node started
	routesKnown    atomic.Bool   // received at any time, and stored since

	ctx    context.Context // ends when the node is not a peer any more
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex  // guards what follows; held while the engine is notified of reachability
	graceTimer *time.Timer // runs while the link is down
}

// newPeer returns a peer and begins to dial it.
func newPeer(m *Mesh, id int) *peer {
	p := &peer{mesh: m, id: id, generation: m.generation(id), ready: make(chan struct{})}
	former := m.backlog.Queue(id).Begin(p.generation)
	m.losses.Add(LostUnreachable, id, int(former.Messages))
	p.ctx, p.cancel = context.WithCancel(m.ctx)
	p.link, p.receiver = newLink(m, p), newReceiver(p)
	p.handle = m.engine.AddPeer(strconv.Itoa(id), p.link)
	p.restoreRoutes()
	p.graceTimer = time.AfterFunc(m.grace, p.graceExpired)
	p.tasks.Go(func() { p.link.run(p.ctx) })
	return p
}

// tableReceived records that a full table of routes was received.
func (p *peer) tableReceived() {
	p.routesReceived.Store(true)
	p.routesKnown.Store(true)
	p.markReady()
}

// markReady ends the wait for the first table of routes.
func (p *peer) markReady() { p.readyOnce.Do(func() { close(p.ready) }) }

// setReachable notifies the engine that the link is up.
func (p *peer) setReachable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.graceTimer.Stop()
	p.handle.SetLinked(true)
}

// setUnreachable notifies the engine that the link is down, and starts the grace period.
func (p *peer) setUnreachable() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle.SetLinked(false)
	p.graceTimer.Reset(p.mesh.grace)
}

// graceExpired stops waiting for the peer: the messages that wait for it are stored until it is
// back.
func (p *peer) graceExpired() {
	p.mu.Lock()
	outcome, abandoned := p.link.abandon()
	if abandoned {
		p.handle.Lose()
	}
	p.mu.Unlock()
	if abandoned && !p.routesKnown.Load() {
		p.mesh.log.Warn("a node has been unreachable since this one started, and its subscriptions are not known: messages for its sessions are neither delivered nor counted",
			"node", p.id)
	}
	outcome.report()
	for i := range outcome.shared {
		p.reassign(&outcome.shared[i])
	}
}

// reassign sends a message that waits for shared subscriptions of the peer to other members, or
// stores it if there are none.
func (p *peer) reassign(m *messageFrame) {
	if m.Receipt == nil {
		if m.Shares = p.handle.Reassign(m.message, m.Shares, nil); len(m.Shares) > 0 {
			p.link.Take(m.message, m.Forward)
		}
		return
	}
	joint := newJointReceipt(m.Receipt)
	m.Receipt = joint
	if m.Shares = p.handle.Reassign(m.message, m.Shares, joint); len(m.Shares) > 0 {
		p.link.Take(m.message, m.Forward)
	} else {
		joint.Committed(nil)
	}
}

// finish reports err for messages that the peer will not get. If it was removed, those for shared
// subscriptions go to other members, and all others are lost.
func (p *peer) finish(waiting []messageFrame, err error) {
	removed := errors.Is(err, engine.ErrGone)
	for i := range waiting {
		m := &waiting[i]
		lost := removed && m.Direct
		if removed && len(m.Shares) > 0 {
			lost = len(p.handle.Reassign(m.message, m.Shares, m.Receipt)) > 0 || lost
		} else if m.Receipt != nil {
			m.Receipt.Committed(err)
		}
		if lost {
			p.link.countLoss(m)
		}
	}
}

// close ends the link, the receiver and their goroutines. Messages that wait are finished with
// err. If the peer was removed, its backlog is deleted, too.
func (p *peer) close(err error) {
	p.cancel()
	p.markReady()
	p.handle.Remove()
	p.tasks.Wait()
	p.mu.Lock()
	p.graceTimer.Stop()
	waiting := p.link.close(err)
	p.mu.Unlock()
	p.finish(waiting, err)
	if errors.Is(err, engine.ErrGone) {
		p.deleteBacklog()
	}
}
