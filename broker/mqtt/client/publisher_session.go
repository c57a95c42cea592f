package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"signalbox/broker/mqtt/packet"
)

// run maintains the publisher's connection. When ctx ends, messages in flight are given up.
func (p *publisher) run(ctx context.Context) {
	p.client.maintain(ctx, p.client.log, p.connectOnce)
	p.mu.Lock()
	if p.stopWatching != nil {
		p.stopWatching()
	}
	p.mu.Unlock()
	p.resumeExpired()
}

func (p *publisher) connectOnce(ctx, serving context.Context) (done bool, err error) {
	c, err := p.connect(ctx, serving)
	if err == nil {
		err = c.serve(ctx, p.acknowledged)
	}
	p.disconnected(err)
	return false, err
}

// connect opens a connection. One that resumes a session whose messages were given up
// meanwhile is not used.
func (p *publisher) connect(ctx, serving context.Context) (*conn, error) {
	for {
		p.mu.Lock()
		p.beginServing(serving)
		params := connectParams{serving: serving, clientID: p.client.options.ClientID + "-p", clean: p.discardSession, keep: true, cleanIfV311: !p.client.options.Session.KeepInFlight, publishState: true}
		p.mu.Unlock()
		c, err := p.client.dial(ctx, params)
		if err != nil || p.connected(c, params.clean) {
			return c, err
		}
		c.Close()
	}
}

// beginServing has the messages in flight given up, and the session replaced, if others have used it. p.mu must be held.
func (p *publisher) beginServing(serving context.Context) {
	if p.serving == serving {
		return
	}
	if p.stopWatching != nil {
		p.stopWatching()
	}
	p.serving = serving
	p.stopWatching = context.AfterFunc(serving, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.serving == serving {
			p.abandonSession(errNotServing)
		}
	})
	p.abandonSession(errNotServing)
}

// abandonSession has the messages in flight given up, and the next session be a new one. p.mu must be held.
func (p *publisher) abandonSession(why error) {
	p.discardSession = true
	p.giveUpAll(why)
	notify(p.ready)
}

// connected records a connection and sends messages in flight again. It returns false if the
// session must not be resumed.
func (p *publisher) connected(c *conn, clean bool) bool {
	session := &p.client.options.Session
	c.lastPackets = func(dst []byte) []byte {
		dst = session.appendState(dst, c.version, stateLost)
		if c.version == packet.V5 {
			return appendLeave(dst)
		}
		return appendGoodbye(dst)
	}
	c.out.add(func(dst []byte) []byte { return session.appendState(dst, c.version, stateConnected) })
	p.mu.Lock()
	if p.discardSession && !clean {
		p.mu.Unlock()
		return false
	}
	if p.resumeTimer != nil {
		p.resumeTimer.Stop()
		p.resumeTimer = nil
	}
	p.conn, p.cause, p.discardSession = c, nil, false
	if len(p.inFlight) > c.connack.window {
		p.giveUp(errGivenUp)
	}
	p.resume(c)
	notify(p.ready)
	notify(c.out.wake) // for what resume added
	p.mu.Unlock()
	p.attemptEnded()
	return true
}

// resume continues where the previous connection ended [MQTT-4.4.0-1]. In a new session all
// messages are sent anew, except those that the broker had already taken (PUBREC). p.mu must
// be held.
func (p *publisher) resume(c *conn) {
	for _, fl := range p.unacknowledged() {
		out, _ := p.outgoing(fl.message, fl.qos)
		out.PacketID, out.Dup, out.Expiry = fl.id, c.connack.sessionPresent, max(out.Expiry, 1)
		out.Retain = out.Retain && !c.connack.noRetain
		switch {
		case !fl.released:
			c.publish(&out)
		case c.connack.sessionPresent:
			p.release(fl.id)
		default:
			p.finish(fl, statePublished)
		}
	}
}

// disconnected records why there is no connection. Messages in flight wait for the next one,
// up to a timeout. If others use the session now, they are given up.
func (p *publisher) disconnected(err error) {
	cause := p.client.options.Explain(err)
	p.mu.Lock()
	if p.conn != nil && !p.client.options.Session.KeepInFlight {
		p.resumeTimer = time.AfterFunc(p.client.timing.ResumeTimeout, p.resumeExpired)
	}
	p.conn, p.cause = nil, cause
	if e, ok := errors.AsType[*DisconnectError](err); ok && e.TakenOver() {
		p.abandonSession(p.connectionError())
	}
	notify(p.ready)
	p.mu.Unlock()
	p.attemptEnded()
}

// attemptEnded wakes those that wait for an attempt to connect.
func (p *publisher) attemptEnded() {
	p.client.mu.Lock()
	defer p.client.mu.Unlock()
	p.attempted.Store(true)
	p.client.attempts.Add(1)
	p.client.notifyChanged()
}

// resumeExpired abandons the messages in flight if there is still no connection.
func (p *publisher) resumeExpired() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		p.giveUpAll(p.connectionError())
		notify(p.ready)
	}
}

// giveUpAll abandons the messages in flight, and ends the wait for another connection. p.mu must be held.
func (p *publisher) giveUpAll(why error) {
	if p.resumeTimer != nil {
		p.resumeTimer.Stop()
	}
	p.resumeTimer = nil
	p.giveUp(why)
}

// giveUp leaves the outcome of the messages in flight open. They must not be sent again, nor
// their packet identifiers be confused with others: the next session is a new one. p.mu must
// be held.
func (p *publisher) giveUp(why error) {
	for _, fl := range p.unacknowledged() {
		p.discardSession = true
		fl.batch.err = why
		p.finish(fl, statePending)
	}
}

// unacknowledged returns the messages in flight, in order. p.mu must be held.
func (p *publisher) unacknowledged() []*inFlightMessage {
	list := slices.Clone(p.order)
	return slices.DeleteFunc(list, func(fl *inFlightMessage) bool { return fl.done })
}
