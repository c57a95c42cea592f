package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/replica"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
	"signalbox/broker/mqtt/packet"
)

// elected is a node that leads from time to time: the real store behind a log. A leader whose
// leadership ends does not know which of its last entries are committed.
type elected struct {
	*replica.Store
	t     testing.TB
	index uint64 // of the log
	now   *leadership
}

// leadership is one leadership of the node.
type leadership struct {
	log     chan entry
	lost    chan struct{}
	applied sync.WaitGroup
}

type entry struct {
	command []byte
	applied chan struct{}
}

// withElected puts a replica in front of the store.
func withElected(t testing.TB, into **elected) func(*engine.Config, *engine.Parts) {
	return func(_ *engine.Config, p *engine.Parts) {
		*into = &elected{t: t, Store: replica.Open(replica.Options{
			Local: p.Store.(*store.Store), Encode: store.AppendChanges, Decode: store.DecodeChanges,
		})}
		p.Store = *into
	}
}

var errLeadershipOver = errors.New("another node leads")

// Begin appends a command to the log.
func (r *leadership) Begin(command []byte) func(context.Context) error {
	e := entry{command, make(chan struct{})}
	select {
	case r.log <- e:
	case <-r.lost:
	}
	return func(ctx context.Context) error {
		select {
		case <-e.applied:
			return nil
		case <-r.lost:
			return errLeadershipOver
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lead begins a leadership.
func (n *elected) lead() {
	r := &leadership{log: make(chan entry, 1000), lost: make(chan struct{})}
	n.now = r
	r.applied.Go(func() { n.apply(r) })
	_, err := n.Lead(context.Background(), r.Begin)
	check(n.t, err)
}

// apply applies the log; when the leadership ends, only the first part of the rest.
func (n *elected) apply(r *leadership) {
	for {
		select {
		case e := <-r.log:
			n.applyOne(e)
		case <-r.lost:
			for left := len(r.log); left > 0; left-- {
				e := <-r.log
				if left = rand.IntN(left + 1); left > 0 {
					n.applyOne(e)
				}
			}
			return
		}
	}
}

func (n *elected) applyOne(e entry) {
	n.index++
	if err := n.Apply(n.index, e.command); err != nil {
		n.t.Errorf("apply: %v", err)
	}
	close(e.applied)
}

// depose ends the leadership, which the owner or the engine may learn first. It returns when
// the rest of the log is applied.
func (n *elected) depose(b *broker) {
	ctx := context.Background()
	if rand.IntN(2) == 0 {
		close(n.now.lost)
		check(n.t, n.Refuse(ctx, errLeadershipOver))
	} else {
		check(n.t, n.Refuse(ctx, errLeadershipOver))
		close(n.now.lost)
	}
	b.suspend()
	check(n.t, n.Follow(ctx))
	n.now.applied.Wait()
}

// tryConnect opens a connection, if the broker accepts it.
func (b *broker) tryConnect(h packet.Connect) *client {
	c, err := b.TryConnect(h)
	if err != nil {
		return nil
	}
	b.T.Cleanup(func() { c.Close() })
	return c
}

// reconnect tries until the broker accepts it or the context ends.
func (b *broker) reconnect(ctx context.Context, clientID string) *client {
	h := keeps(clientID)
	h.Version, h.ReceiveMaximum = packet.V5, 65535
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if c := b.tryConnect(h); c != nil {
			return c
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// sender publishes numbers at one QoS, each after the one before was acknowledged, on as many
// connections as necessary.
type sender struct {
	b     *broker
	name  string
	qos   byte
	acked atomic.Int64 // the last number
}

// run sends until the context ends, and then what is not acknowledged yet.
func (s *sender) run(ctx context.Context) {
	var c *client
	next := func() { c = s.b.reconnect(s.b.T.Context(), s.name) }
	next()
	for number := int64(1); ctx.Err() == nil; number++ {
		id := uint16(number%65535) + 1
		for dup := false; !s.publish(c, number, id, dup); dup = true {
			next()
			if !c.Present {
				s.b.T.Errorf("%s has lost its session", s.name)
			}
		}
		for s.qos == 2 && !s.release(c, id) {
			next()
		}
		s.acked.Store(number)
	}
}

func (s *sender) publish(c *client, number int64, id uint16, dup bool) bool {
	o := packet.Outgoing{Topic: "t/" + s.name, Payload: fmt.Append(nil, number), QoS: s.qos, PacketID: id, Dup: dup, Retain: true}
	if _, err := c.Write(packet.AppendPublish(nil, packet.V5, &o)); err != nil {
		return false
	}
	kind := []byte{0, packet.TypePuback, packet.TypePubrec}[s.qos]
	return s.answered(c, kind, id)
}

func (s *sender) release(c *client, id uint16) bool {
	if _, err := c.Write(packet.AppendAck(nil, packet.V5, packet.TypePubrel, id, 0, "")); err != nil {
		return false
	}
	return s.answered(c, packet.TypePubcomp, id)
}

// answered reports whether an acknowledgement is received. None may refuse, except that the
// packet identifier of a PUBREL may be unknown.
func (s *sender) answered(c *client, kind byte, id uint16) bool {
	p, err := c.Read()
	if err != nil || p[0]>>4 == packet.TypeDisconnect {
		return false
	}
	a, err := packet.DecodeAck(p, packet.V5)
	if err != nil || a.Type != kind || a.PacketID != id || a.Reason >= 0x80 && kind != packet.TypePubcomp {
		s.b.T.Errorf("%s got % x, %v; want an acknowledgement of type %d for %d", s.name, p, err, kind, id)
	}
	return true
}

// recipient records what it receives, over all its connections.
type recipient struct {
	b        *broker
	name     string
	filter   string
	qos      byte
	released map[uint16]bool // QoS 2 packet identifiers that wait for PUBREL

	mu     sync.Mutex // guards counts
	counts map[string]int
	last   map[string]int
}

// run receives until the context ends.
func (r *recipient) run(ctx context.Context, subscribed func()) {
	r.released, r.counts, r.last = map[uint16]bool{}, map[string]int{}, map[string]int{}
	c := r.b.reconnect(ctx, r.name)
	c.Subscribe(r.filter, r.qos|2<<4)
	subscribed()
	for c != nil {
		conn := c.Conn
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		for r.receive(c) {
		}
		stop()
		if c = r.b.reconnect(ctx, r.name); c != nil && !c.Present && ctx.Err() == nil {
			r.b.T.Errorf("%s has lost its session", r.name)
		}
	}
}

// receive handles one packet, as the standard requires.
func (r *recipient) receive(c *client) bool {
	p, err := c.Read()
	if err != nil {
		return false
	}
	switch p[0] >> 4 {
	case packet.TypePublish:
		m := c.Parse(p)
		answer := packet.TypePuback
		if m.QoS == 2 {
			answer = packet.TypePubrec
		}
		if m.QoS < 2 || !r.released[m.ID] {
			r.count(m)
		}
		r.released[m.ID] = m.QoS == 2
		_, err = c.Write(packet.AppendAck(nil, packet.V5, answer, m.ID, 0, ""))
	case packet.TypePubrel:
		a, _ := packet.DecodeAck(p, packet.V5)
		delete(r.released, a.PacketID)
		_, err = c.Write(packet.AppendAck(nil, packet.V5, packet.TypePubcomp, a.PacketID, 0, ""))
	}
	return err == nil
}

func (r *recipient) count(m message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := m.Topic + " " + m.Payload
	r.counts[key]++
	n, _ := strconv.Atoi(m.Payload)
	if m.QoS == 2 && strings.HasPrefix(r.filter, "t") && n <= r.last[m.Topic] {
		r.b.T.Errorf("%s got %s after %d", r.name, key, r.last[m.Topic])
	}
	r.last[m.Topic] = n
}

// has returns how often a message was received.
func (r *recipient) has(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[key]
}

// TestLeadershipChanges publishes and receives over many leaderships of a node. Every
// acknowledged message is received by all subscribers, at QoS 2 once, in order, and nothing is
// refused.
func TestLeadershipChanges(t *testing.T) {
	t.Parallel()
	var n *elected
	b := start(t, t.TempDir(), withElected(t, &n))
	b.suspend()
	n.lead()
	b.resume()
	recipients := []*recipient{
		{b: b, name: "one", filter: "t/+", qos: 1}, {b: b, name: "two", filter: "t/+", qos: 2},
		{b: b, name: "s1", filter: "$share/g/t/+", qos: 1}, {b: b, name: "s2", filter: "$share/g/t/+", qos: 1},
	}
	senders := []*sender{{b: b, name: "a", qos: 1}, {b: b, name: "b", qos: 2}, {b: b, name: "c", qos: 2}}
	reading, stopReading := context.WithCancel(t.Context())
	sending, stopSending := context.WithCancel(t.Context())
	var readers, writers, subscribed sync.WaitGroup
	subscribed.Add(len(recipients))
	for _, r := range recipients {
		readers.Go(func() { r.run(reading, subscribed.Done) })
	}
	subscribed.Wait()
	for _, s := range senders {
		writers.Go(func() { s.run(sending) })
	}
	for range 15 {
		for _, s := range senders {
			more := s.acked.Load() + 5
			until(t, s.name+" is served", func() bool { return s.acked.Load() >= more || t.Failed() })
		}
		n.depose(b)
		n.lead()
		b.resume()
	}
	stopSending()
	writers.Wait()
	for _, s := range senders {
		s.wantReceived(recipients)
		if m, ok := b.RetainedOf("t/" + s.name); !ok || string(m.Payload) != fmt.Sprint(s.acked.Load()) {
			t.Errorf("retained of %s is %v, want %d", s.name, m, s.acked.Load())
		}
	}
	stopReading()
	readers.Wait()
	check(t, n.Alone(context.Background()))
	close(n.now.lost)
	n.now.applied.Wait()
}

// wantReceived waits until every acknowledged message was received.
func (s *sender) wantReceived(by []*recipient) {
	t := s.b.T
	t.Helper()
	for number := range s.acked.Load() {
		key := fmt.Sprintf("t/%s %d", s.name, number+1)
		for _, r := range by[:2] {
			until(t, r.name+" gets "+key, func() bool { return r.has(key) > 0 })
		}
		until(t, "a member gets "+key, func() bool { return by[2].has(key)+by[3].has(key) > 0 })
		if times := by[1].has(key); s.qos == 2 && times != 1 {
			t.Errorf("two got %s %d times", key, times)
		}
	}
}
