package client

import (
	"context"
	"slices"
	"time"

	"signalbox/broker/mqtt/packet"
)

// run keeps a connection to publish on. When the context ends, what is under way
// is given up.
func (p *publisher) run(ctx context.Context) {
	p.feed.keep(ctx, p.feed.log, p.attend)
	p.late()
}

func (p *publisher) attend(ctx context.Context) (done bool, err error) {
	c, err := p.connect(ctx)
	if err == nil {
		err = c.serve(ctx, p.acknowledged)
	}
	p.down(err)
	return false, err
}

// connect opens a connection. One that goes on with a session whose messages were
// given up while it was made is not used.
func (p *publisher) connect(ctx context.Context) (*conn, error) {
	for {
		p.mu.Lock()
		as := login{clientID: p.feed.options.ClientID + "-p", clean: p.fresh, keep: true, brief: !p.feed.options.Client.Patient, tells: true}
		p.mu.Unlock()
		c, err := p.feed.dial(ctx, as)
		if err != nil || p.up(c, as.clean) {
			return c, err
		}
		c.Close()
	}
}

// up shows a connection, and sends on it again what is under way. It answers false
// where the session must not be gone on with.
func (p *publisher) up(c *conn, clean bool) bool {
	me := &p.feed.options.Client
	c.farewell = func(dst []byte) []byte {
		dst = me.state(dst, c.version, stateLost)
		if c.version == packet.V5 {
			return appendLeave(dst)
		}
		return appendGoodbye(dst)
	}
	c.out.add(func(dst []byte) []byte { return me.state(dst, c.version, stateStanding) })
	p.mu.Lock()
	if p.fresh && !clean {
		p.mu.Unlock()
		return false
	}
	if p.hurry != nil {
		p.hurry.Stop()
		p.hurry = nil
	}
	p.conn, p.cause, p.fresh = c, nil, false
	if len(p.flows) > c.allowed.window {
		p.giveUp()
	}
	p.resume(c)
	signal(p.freed)
	p.mu.Unlock()
	p.outcome()
	return true
}

// resume goes on where the connection before has ended [MQTT-4.4.0-1]. With a new
// session everything begins anew, but for what the broker had already taken over.
// The caller holds mu.
func (p *publisher) resume(c *conn) {
	for _, fl := range p.underWay() {
		out, _ := p.outgoing(fl.message, fl.qos)
		out.PacketID, out.Dup, out.Expiry = fl.id, c.allowed.present, max(out.Expiry, 1)
		out.Retain = out.Retain && !c.allowed.forgets
		switch {
		case !fl.released:
			c.publish(&out)
		case c.allowed.present:
			p.release(fl.id)
		default:
			p.finish(fl, published)
		}
	}
}

// down notes why there is no connection. What is under way waits for the next
// one, though not for ever.
func (p *publisher) down(err error) {
	cause := p.feed.options.Explain(err)
	p.mu.Lock()
	if p.conn != nil && !p.feed.options.Client.Patient {
		p.hurry = time.AfterFunc(p.feed.timing.Answer, p.late)
	}
	p.conn, p.cause = nil, cause
	signal(p.freed)
	p.mu.Unlock()
	p.outcome()
}

// outcome tells those who wait that an attempt to connect has had one.
func (p *publisher) outcome() {
	p.feed.mu.Lock()
	defer p.feed.mu.Unlock()
	p.tried.Store(true)
	p.feed.tries.Add(1)
	p.feed.announce()
}

// late gives up what is under way if there is still no connection.
func (p *publisher) late() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		if p.hurry != nil {
			p.hurry.Stop()
		}
		p.hurry = nil
		p.giveUp()
		signal(p.freed)
	}
}

// giveUp leaves open what becomes of the messages under way. They must not be
// sent again after that, nor their identifiers be mistaken for others': the next
// session is another one. The caller holds mu.
func (p *publisher) giveUp() {
	for _, fl := range p.underWay() {
		p.fresh = true
		fl.batch.err = p.why()
		p.finish(fl, pending)
	}
}

// underWay gives the messages under way, as they were sent. The caller holds mu.
func (p *publisher) underWay() []*flow {
	list := slices.Clone(p.order)
	return slices.DeleteFunc(list, func(fl *flow) bool { return fl.over })
}
