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
	handle         *engine.Peer
	link           *link
	receiver       *receiver
	readyOnce      sync.Once
	ready          chan struct{} // closed when routes were received, or after startupWindow without contact
	routesReceived atomic.Bool   // since this node started

	ctx    context.Context // ends when the node is not a peer any more
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu         sync.Mutex  // guards what follows; held while the engine is notified of reachability
	graceTimer *time.Timer // runs while the link is down
}

// newPeer returns a peer and begins to dial it.
func newPeer(m *Mesh, id int) *peer {
	p := &peer{mesh: m, id: id, ready: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(m.ctx)
	p.link, p.receiver = newLink(m, p), newReceiver(p)
	p.handle = m.engine.AddPeer(strconv.Itoa(id), p.link)
	p.graceTimer = time.AfterFunc(m.grace, p.graceExpired)
	p.tasks.Go(func() { p.link.run(p.ctx) })
	return p
}

// tableReceived records that a full table of routes was received.
func (p *peer) tableReceived() {
	p.routesReceived.Store(true)
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

// graceExpired stops waiting for the peer, and finishes the messages that wait for it.
func (p *peer) graceExpired() {
	p.mu.Lock()
	waiting, abandoned := p.link.abandon(nil)
	if abandoned {
		p.handle.Lose()
	}
	p.mu.Unlock()
	if abandoned && !p.routesReceived.Load() {
		p.mesh.log.Warn("a node has been unreachable since this one started: messages for its sessions are neither delivered nor counted",
			"node", p.id)
	}
	p.finish(waiting, engine.ErrGone)
}

// finish reports err for messages that the peer will not get. If it is unreachable, those for
// shared subscriptions go to other members, and all others are lost.
func (p *peer) finish(waiting []messageFrame, err error) {
	unreachable := errors.Is(err, engine.ErrGone)
	for i := range waiting {
		m := &waiting[i]
		lost := unreachable && m.Direct
		if unreachable && len(m.Shares) > 0 {
			lost = !p.handle.Reassign(m.message, m.Shares, m.Receipt) || lost
		} else if m.Receipt != nil {
			m.Receipt.Committed(err)
		}
		if lost {
			p.link.countLoss(m)
		}
	}
}

// close ends the link, the receiver and their goroutines. Messages that wait are finished with
// err.
func (p *peer) close(err error) {
	p.cancel()
	p.markReady()
	p.handle.Remove()
	p.tasks.Wait()
	p.mu.Lock()
	p.graceTimer.Stop()
	waiting, _ := p.link.abandon(err)
	p.mu.Unlock()
	p.finish(waiting, err)
}
