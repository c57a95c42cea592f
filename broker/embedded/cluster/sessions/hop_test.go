package sessions_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// The kinds of request, as they stand in their second byte.
const (
	kindClaim = 1 + iota
	kindFetch
	kindDone
	kindKeep
	kindStatus
	kindFlush
	kindList
	kindPull
)

// hopper is a client that goes from node to node and keeps an account of what it
// got, across its connections.
type hopper struct {
	c        *cluster
	dice     *rand.Rand
	pending  map[uint16]bool // QoS 2, received and not released
	got      map[string]int  // by payload
	newest   map[string]int  // of each publisher, for each QoS
	disorder int
	hops     int
	anew     int // connections without a session
	last     *enginetest.Client
}

func newHopper(c *cluster, seed uint64) *hopper {
	return &hopper{
		c: c, dice: rand.New(rand.NewPCG(seed, 7)), pending: map[uint16]bool{}, got: map[string]int{}, newest: map[string]int{},
	}
}

// hop connects to some node and takes messages there until the connection breaks
// or it wants to go on. It answers false if it was not let in.
func (h *hopper) hop(limit int, quiet time.Duration) bool {
	n := h.c.nodes[h.dice.IntN(len(h.c.nodes))]
	c, err := n.TryConnect(keeps("hopper"))
	if err != nil {
		return false
	}
	if h.last != nil && h.dice.IntN(2) == 0 { // else the node ends it
		h.last.Close()
	}
	h.hops, h.last = h.hops+1, c
	h.c.t.Cleanup(func() { c.Close() })
	if !c.Present {
		h.anew++
		h.pending = map[uint16]bool{}
		if h.subscribe(c) != nil {
			return true
		}
	}
	for range limit {
		if err := c.SetReadDeadline(time.Now().Add(quiet)); err != nil {
			return true
		}
		p, err := c.Next()
		if err != nil || h.handle(c, p) != nil {
			return true
		}
	}
	return true
}

// subscribe subscribes to what is published. Messages may come before SUBACK.
func (h *hopper) subscribe(c *enginetest.Client) error {
	p := packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: "a", Options: 2}}})
	for err := c.TrySend(p); ; {
		if err == nil {
			p, err = c.Read()
		}
		if err != nil || p[0]>>4 == packet.TypeSuback {
			return err
		}
		err = h.handle(c, p)
	}
}

// handle takes one packet, as a client should; now and then the connection breaks
// before it is answered.
func (h *hopper) handle(c *enginetest.Client, p []byte) error {
	switch p[0] >> 4 {
	case packet.TypePublish:
		m := c.Parse(p)
		if m.QoS == 1 {
			h.count(m)
			return answer(c, packet.TypePuback, m.ID)
		}
		if !h.pending[m.ID] {
			h.pending[m.ID] = true
			h.count(m)
		}
		return answer(c, packet.TypePubrec, m.ID)
	case packet.TypePubrel:
		delete(h.pending, enginetest.PacketID(p))
		return answer(c, packet.TypePubcomp, enginetest.PacketID(p))
	}
	return nil
}

// answer acknowledges what came on a connection that may have ended.
func answer(c *enginetest.Client, kind byte, id uint16) error {
	return c.TrySend(packet.AppendAck(nil, packet.V5, kind, id, 0, ""))
}

// count notes a message, "publisher-number".
func (h *hopper) count(m enginetest.Message) {
	h.got[m.Payload]++
	if h.got[m.Payload] > 1 {
		return
	}
	publisher, number, _ := strings.Cut(m.Payload, "-")
	n, err := strconv.Atoi(number)
	check(h.c.t, err)
	key := fmt.Sprint(publisher, m.QoS)
	if n < h.newest[key] {
		h.disorder++
	}
	h.newest[key] = max(h.newest[key], n)
}

// publishers publish at every node, QoS 1 and 2 in turn, until stop. They give
// what was acknowledged.
func (c *cluster) publish(stop chan struct{}, pause time.Duration) (acknowledged func() []string) {
	var mu sync.Mutex
	var all []string
	var running sync.WaitGroup
	for _, n := range c.nodes {
		running.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
				payload := fmt.Sprintf("%d-%d", n.number, i)
				m := &engine.Message{Topic: "a", QoS: byte(1 + i%2), Payload: []byte(payload), Publisher: fmt.Sprint("p", n.number)}
				if n.Publish(m) == nil {
					mu.Lock()
					all = append(all, payload)
					mu.Unlock()
				}
			}
		})
	}
	return func() []string { running.Wait(); return all }
}

// run has the client hop for a while, then stay until it has everything that was
// acknowledged.
func (h *hopper) run(hops int) (acknowledged []string) {
	for !h.hop(0, 0) { // that it is subscribed
	}
	stop := make(chan struct{})
	acked := h.c.publish(stop, 300*time.Microsecond)
	for h.hops < hops {
		h.hop(h.dice.IntN(200), 50*time.Millisecond)
	}
	close(stop)
	acknowledged = acked()
	for end := time.Now().Add(suite.HangLimit); h.anew == 1 && h.missing(acknowledged) > 0 && time.Now().Before(end); {
		h.hop(1<<20, 200*time.Millisecond)
	}
	return acknowledged
}

// missing is how many messages have not come.
func (h *hopper) missing(acknowledged []string) (n int) {
	for _, payload := range acknowledged {
		if h.got[payload] == 0 {
			n++
		}
	}
	return n
}

// settled waits until the session is at one node.
func (h *hopper) settled() {
	h.c.t.Helper()
	until(h.c.t, "the session is at one node", func() bool { return len(h.c.sessions("hopper")) == 1 })
}

// TestCampaignHopping has a client go from node to node while messages are published at
// all of them: it gets each of QoS 1 in order, and each of QoS 2 once.
func TestCampaignHopping(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3)
	h := newHopper(c, 1)
	acknowledged := h.run(60)
	t.Logf("%d hops, %d messages, figures of node 1: %+v", h.hops, len(acknowledged), c.nodes[0].claims.Figures())
	if n := h.missing(acknowledged); n > 0 {
		t.Errorf("%d of %d messages are missing", n, len(acknowledged))
	}
	if h.anew != 1 {
		t.Errorf("%d new sessions", h.anew)
	}
	if h.disorder > 0 {
		t.Errorf("%d messages came behind later ones", h.disorder)
	}
	for payload, n := range h.got {
		if number, _ := strconv.Atoi(payload[2:]); n > 1 && number%2 == 1 {
			t.Errorf("message %s of QoS 2 came %d times", payload, n)
		}
	}
	h.settled()
}

// TestCampaignHoppingWithFaults loses requests and answers of every kind but claims: then
// nothing that was acknowledged is lost, and the session neither.
func TestCampaignHoppingWithFaults(t *testing.T) {
	t.Parallel()
	for kind, name := range map[byte]string{
		kindFetch: "fetch", kindDone: "done", kindKeep: "keep", kindFlush: "flush", kindList: "list", kindPull: "pull", 0: "all",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClusterOverTCP(t, 3)
			dice := rand.New(rand.NewPCG(uint64(kind), 3))
			c.spoil(func(request []byte) (f fault) {
				if request[1] != kindClaim && (kind == 0 || request[1] == kind) {
					f.before, f.after = dice.IntN(6) == 0, dice.IntN(6) == 0
					f.delay = time.Duration(dice.IntN(2000)) * time.Microsecond
				}
				return f
			})
			h := newHopper(c, uint64(kind))
			acknowledged := h.run(20)
			t.Logf("%d hops, %d messages, %d new sessions, figures of node 1: %+v", h.hops, len(acknowledged), h.anew, c.nodes[0].claims.Figures())
			if n := h.missing(acknowledged); n > 0 && h.anew == 1 {
				t.Errorf("%d of %d messages are missing", n, len(acknowledged))
			}
			h.settled()
		})
	}
}
