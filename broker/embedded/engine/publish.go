package engine

import (
	"errors"
	"strings"
)

// controlPrefix is the prefix of the topics of control APIs. A message to them is a request
// to the broker, and is neither delivered nor retained.
const controlPrefix = "$CONTROL/"

// onPublish handles a PUBLISH of the client in five steps, each in a file of its own:
// decode, authorise, route, store and acknowledge.
func (c *Conn) onPublish(p []byte) error {
	pk := &c.in.publish
	r, err := c.decode(p, pk)
	if err != nil {
		return err
	}
	if !c.authorise(pk, r) {
		return nil
	}
	if strings.HasPrefix(r.topic, controlPrefix) {
		c.request(pk, r.topic)
		return nil
	}
	e := c.engine
	if under := e.publishing.enter(c.timestamp); under != nil {
		defer under.exit()
		e.refresh(r, c.rights)
	}
	pub := e.newPublication() // before accept, which checks the state of its generation
	m := c.accept(pk, r, pub)
	if m == nil {
		return nil
	}
	e.observe(m.Topic, m.Payload, m.QoS, m.Retain)
	c.in.forwarded = c.in.forwarded || len(r.peers) > 0
	e.tap(m, r, pub)
	if m.Retain {
		e.retained.mu.Lock()
		defer e.retained.mu.Unlock()
		e.retain(m, pub)
		e.refresh(r, c.rights)
	}
	reached := e.route(m, r, c.session, pub, &c.in.touched)
	if !m.Retain && c.version >= 5 && m.QoS > 0 && pub.refusedByQuota() {
		c.refuseQuota(pk)
		pub.recycle()
		return nil
	}
	c.store(pk, pub, reached)
	return nil
}

// Publish publishes a message of the broker itself or of an administrator, and waits for the
// outcome if something of it must be stored.
func (e *Engine) Publish(m *Message) error {
	pub := e.newPublication()
	if pub.generation.isRestoring() && (m.QoS > 0 || m.Retain) {
		pub.recycle()
		return errRestoring
	}
	done := make(chan error, 1)
	pub.done = done
	if e.publishAlone(m, nil, pub) {
		return <-done
	}
	return nil
}

// errRestoring refuses a message while the sessions that it may be for are being restored.
var errRestoring = errors.New("the broker is restoring its sessions")

// publishAlone publishes a message that no connection received, and flushes the connections
// of its recipients. It reports whether something of it is being stored.
func (e *Engine) publishAlone(m *Message, from *Session, pub *publication) bool {
	var touched []*Conn
	stores := e.publish(m, &route{topic: m.Topic}, from, pub, &touched)
	for _, c := range touched {
		c.flush()
	}
	return stores
}

// publish routes and stores a message that no connection received. It reports whether
// something of it is being stored.
func (e *Engine) publish(m *Message, r *route, from *Session, pub *publication, touched *[]*Conn) bool {
	e.observe(m.Topic, m.Payload, m.QoS, m.Retain)
	if under := e.publishing.enter(0); under != nil {
		defer under.exit()
	}
	if m.Retain {
		e.retained.mu.Lock()
		defer e.retained.mu.Unlock()
		e.retain(m, pub)
	}
	e.refresh(r, nil)
	e.tap(m, r, pub)
	e.route(m, r, from, pub, touched)
	return pub.storeAny()
}
