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

// peer is another node: the link to it, and what comes from it.
type peer struct {
	mesh   *Mesh
	id     int
	handle *engine.Peer
	link   *link
	intake *intake
	heard  sync.Once
	told   chan struct{} // closed when it has told its routes once, or was not reached for startTogether
	known  atomic.Bool   // it has told its routes since this node was started

	life    context.Context // ends when it is no peer any more
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex  // guards what follows; held while telling the engine whether the node can be reached
	grace *time.Timer // runs while it cannot
}

// newPeer makes a node known and begins to connect to it.
func newPeer(m *Mesh, id int) *peer {
	p := &peer{mesh: m, id: id, told: make(chan struct{})}
	p.life, p.end = context.WithCancel(m.life)
	p.link, p.intake = newLink(m, p), newIntake(p)
	p.handle = m.engine.AddPeer(strconv.Itoa(id), p.link)
	p.grace = time.AfterFunc(m.grace, p.lose)
	p.running.Go(func() { p.link.run(p.life) })
	return p
}

// learned notes that the node has told its whole table of routes.
func (p *peer) learned() {
	p.known.Store(true)
	p.hear()
}

// hear ends the wait for the node's first table of routes.
func (p *peer) hear() { p.heard.Do(func() { close(p.told) }) }

// reached tells the engine that messages can be sent to the node.
func (p *peer) reached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grace.Stop()
	p.handle.SetLinked(true)
}

// unreached tells it that they must wait.
func (p *peer) unreached() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle.SetLinked(false)
	p.grace.Reset(p.mesh.grace)
}

// lose gives up what waits for the node, which was not reached for too long.
func (p *peer) lose() {
	p.mu.Lock()
	waiting, is := p.link.giveUp(nil)
	if is {
		p.handle.Lose()
	}
	p.mu.Unlock()
	if is && !p.known.Load() {
		p.mesh.log.Warn("a node was not reached since this one was started: messages for its sessions are neither delivered nor counted",
			"node", p.id)
	}
	p.settle(waiting, engine.ErrGone)
}

// settle has messages end that the node was to get. If it is gone, those for
// shared subscriptions go to other members, and all others are lost.
func (p *peer) settle(waiting []parcel, err error) {
	gone := errors.Is(err, engine.ErrGone)
	for i := range waiting {
		m := &waiting[i]
		lost := gone && m.Direct
		if gone && len(m.Shares) > 0 {
			lost = !p.handle.Reassign(m.message, m.Shares, m.Receipt) || lost
		} else if m.Receipt != nil {
			m.Receipt.Settled(err)
		}
		if lost {
			p.link.countLost(m)
		}
	}
}

// close ends all that has to do with the node. Messages that wait for it are
// settled with an error.
func (p *peer) close(err error) {
	p.end()
	p.hear()
	p.handle.Remove()
	p.running.Wait()
	p.mu.Lock()
	p.grace.Stop()
	waiting, _ := p.link.giveUp(err)
	p.mu.Unlock()
	p.settle(waiting, err)
}
