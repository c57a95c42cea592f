package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// The size of TestDelivery.
const (
	publishers = 3
	readers    = 3
	perSender  = 150
)

// TestDelivery publishes at QoS 1 and 2 to readers with persistent sessions that disconnect
// all the time, sometimes by a take-over: everything that was acknowledged is received, in
// order, at QoS 2 once.
func TestDelivery(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]int64{"memory": engine.DefaultConfig().ConnectedMemory, "disk": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDelivery(t, start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.ConnectedMemory = memory }))
		})
	}
}

func testDelivery(t *testing.T, b *broker) {
	t.Helper()
	var all []*reader
	for i := range readers {
		r := &reader{broker: b, id: fmt.Sprintf("r%d", i), dice: rand.New(rand.NewPCG(uint64(i), 13)), held: map[uint16]bool{}}
		r.subscribe()
		all = append(all, r)
	}
	var tasks sync.WaitGroup
	for i := range publishers {
		tasks.Go(func() { b.publishAll(i) })
	}
	for _, r := range all {
		tasks.Go(r.run)
	}
	tasks.Wait()
	for _, r := range all {
		r.drain(t)
		r.check(t)
	}
	b.counted()
}

// publishAll sends a publisher's messages, odd ones at QoS 1, even ones at QoS 2,
// a few at a time, until all are acknowledged.
func (b *broker) publishAll(i int) {
	c := b.Connect(fresh(fmt.Sprintf("p%d", i)))
	defer c.Close()
	open, next := 0, 1
	for next <= perSender || open > 0 {
		for ; open < 10 && next <= perSender; next++ {
			c.Publish(packet.Outgoing{
				Topic: fmt.Sprintf("m/%d", i), Payload: fmt.Append(nil, next), QoS: byte(1 + (next+1)%2), PacketID: uint16(next),
			})
			open++
		}
		p, err := c.Read()
		if err != nil {
			b.T.Errorf("publisher %d: %v", i, err)
			return
		}
		id := uint16(p[2])<<8 | uint16(p[3])
		switch p[0] >> 4 {
		case packet.TypePuback, packet.TypePubcomp:
			open--
		case packet.TypePubrec:
			c.Write(packet.AppendAck(nil, c.Version, packet.TypePubrel, id, 0, "")) //nolint:errcheck // reading will tell
		}
	}
}

// reader is a client that keeps its state of QoS 2 across connections.
type reader struct {
	broker *broker
	id     string
	dice   *rand.Rand
	held   map[uint16]bool // packet identifiers of QoS 2 that were received and not released
	got    [publishers][]int
}

func (r *reader) hello() packet.Connect {
	h := keeps(r.id)
	h.ReceiveMaximum = uint16(1 + r.dice.IntN(8))
	return h
}

func (r *reader) subscribe() {
	c := r.broker.Connect(r.hello())
	c.Subscribe("m/#", 2)
	c.Disconnect()
}

func (r *reader) run() {
	for last := (*client)(nil); !r.complete(); {
		c := r.broker.Dial()
		h := r.hello()
		h.Version = packet.V5
		c.Write(packet.AppendConnect(nil, &h)) //nolint:errcheck // reading will tell
		if last != nil {
			last.Close()
		}
		if !r.session(c) {
			return
		}
		if last = c; r.dice.IntN(2) == 0 {
			c.Close()
		}
	}
}

// complete reports whether the last message of every publisher was received. Messages are
// received in order, so all others were too.
func (r *reader) complete() bool {
	return !slices.ContainsFunc(r.got[:], func(list []int) bool { return !slices.Contains(list, perSender) })
}

// drain receives what was not acknowledged yet.
func (r *reader) drain(t *testing.T) {
	t.Helper()
	c := r.broker.Connect(r.hello())
	for r.broker.queue(r.id) > 0 {
		p, err := c.Read()
		check(t, err)
		c.Send(append(r.handle(c, p), packet.TypePingreq<<4, 0))
	}
}

// session reads on one connection until it disconnects. It returns false when nothing is
// received for too long.
func (r *reader) session(c *client) bool {
	for life := 20 + r.dice.IntN(60); life > 0 && !r.complete(); life-- {
		p, err := c.Read()
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			r.broker.T.Errorf("%s: nothing comes any more, %d identifiers are held", r.id, len(r.held))
			return false
		}
		if err != nil {
			return true
		}
		if answer := r.handle(c, p); answer != nil && r.dice.IntN(20) > 0 {
			c.Write(answer) //nolint:errcheck // reading will tell
		} else if answer != nil {
			return true // disconnected before the response
		}
	}
	return true
}

// handle handles a packet and returns the response.
func (r *reader) handle(c *client, p []byte) []byte {
	switch p[0] >> 4 {
	case packet.TypePublish:
		m := c.Parse(p)
		if m.QoS == 2 {
			if !r.held[m.ID] {
				r.held[m.ID] = true
				r.note(m)
			}
			return packet.AppendAck(nil, c.Version, packet.TypePubrec, m.ID, 0, "")
		}
		r.note(m)
		return packet.AppendAck(nil, c.Version, packet.TypePuback, m.ID, 0, "")
	case packet.TypePubrel:
		id := uint16(p[2])<<8 | uint16(p[3])
		delete(r.held, id)
		return packet.AppendAck(nil, c.Version, packet.TypePubcomp, id, 0, "")
	}
	return nil
}

func (r *reader) note(m message) {
	var from, n int
	if _, err := fmt.Sscanf(m.Topic+" "+m.Payload, "m/%d %d", &from, &n); err != nil {
		r.broker.T.Errorf("%s: got %v", r.id, m)
		return
	}
	r.got[from] = append(r.got[from], n)
}

// check checks everything that was received.
func (r *reader) check(t *testing.T) {
	t.Helper()
	for from, list := range r.got {
		seen, highest := map[int]int{}, 0
		for _, n := range list {
			seen[n]++
			if seen[n] == 1 {
				if n != highest+1 {
					t.Errorf("%s: of publisher %d, %d came after %d", r.id, from, n, highest)
				}
				highest = n
			}
			if n%2 == 0 && seen[n] > 1 {
				t.Errorf("%s: of publisher %d, %d came twice at QoS 2", r.id, from, n)
			}
		}
		if highest != perSender {
			t.Errorf("%s: of publisher %d, %d messages came", r.id, from, highest)
		}
	}
}
