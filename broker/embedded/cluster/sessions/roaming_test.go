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

// The kinds of request, found in their second byte.
const (
	kindClaim = 1 + iota
	kindFetch
	kindConfirm
	kindCancel
	kindStatus
	kindFlush
	kindList
	kindPull
	kindReceive
	kindStop
	kindClaimWill
	kindReceiveWill
)

// roamingClient connects to one node after the other and records what it receives.
type roamingClient struct {
	c           *cluster
	random      *rand.Rand
	pending     map[uint16]bool // QoS 2, received and not released
	got         map[string]int  // receptions by payload
	latest      map[string]int  // message number of each publisher and QoS
	outOfOrder  int
	connections int
	newSessions int // connections without a session
	last        *enginetest.Client
}

func newRoamingClient(c *cluster, seed uint64) *roamingClient {
	return &roamingClient{
		c: c, random: rand.New(rand.NewPCG(seed, 7)), pending: map[uint16]bool{}, got: map[string]int{}, latest: map[string]int{},
	}
}

// connect connects to a random node and receives messages until the connection breaks, the
// limit is reached or nothing comes any more. It reports whether the client was let in.
func (h *roamingClient) connect(limit int, quiet time.Duration) bool {
	n := h.c.nodes[h.random.IntN(len(h.c.nodes))]
	c, err := n.TryConnect(keeps("roaming"))
	if err != nil {
		return false
	}
	if h.last != nil && h.random.IntN(2) == 0 { // else the node ends it
		h.last.Close()
	}
	h.connections, h.last = h.connections+1, c
	h.c.t.Cleanup(func() { c.Close() })
	if !c.Present {
		h.newSessions++
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

// subscribe sends SUBSCRIBE. Messages may come before SUBACK.
func (h *roamingClient) subscribe(c *enginetest.Client) error {
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

// handle acknowledges one packet.
func (h *roamingClient) handle(c *enginetest.Client, p []byte) error {
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

// answer sends an acknowledgement on a connection that may have ended.
func answer(c *enginetest.Client, kind byte, id uint16) error {
	return c.TrySend(packet.AppendAck(nil, packet.V5, kind, id, 0, ""))
}

// count records a message with the payload "publisher-number".
func (h *roamingClient) count(m enginetest.Message) {
	h.got[m.Payload]++
	if h.got[m.Payload] > 1 {
		return
	}
	publisher, number, _ := strings.Cut(m.Payload, "-")
	n, err := strconv.Atoi(number)
	check(h.c.t, err)
	key := fmt.Sprint(publisher, m.QoS)
	if n < h.latest[key] {
		h.outOfOrder++
	}
	h.latest[key] = max(h.latest[key], n)
}

// publish publishes at every node, alternating QoS 1 and 2, until stop is closed. The function
// it returns waits for the end and returns the acknowledged payloads.
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

// run lets the client roam for some connections, then stay until it has received everything
// that was acknowledged.
func (h *roamingClient) run(connections int) (acknowledged []string) {
	for !h.connect(0, 0) { // until it is subscribed
	}
	stop := make(chan struct{})
	acked := h.c.publish(stop, 300*time.Microsecond)
	for h.connections < connections {
		h.connect(h.random.IntN(200), 50*time.Millisecond)
	}
	close(stop)
	acknowledged = acked()
	for end := time.Now().Add(suite.HangLimit); h.newSessions == 1 && h.missing(acknowledged) > 0 && time.Now().Before(end); {
		h.connect(1<<20, 200*time.Millisecond)
	}
	return acknowledged
}

// missing returns how many of the acknowledged messages were not received.
func (h *roamingClient) missing(acknowledged []string) (n int) {
	for _, payload := range acknowledged {
		if h.got[payload] == 0 {
			n++
		}
	}
	return n
}

// waitForOneNode waits until the session is at one node.
func (h *roamingClient) waitForOneNode() {
	h.c.t.Helper()
	until(h.c.t, "the session is at one node", func() bool { return len(h.c.owners("roaming")) == 1 })
}

// TestCampaignRoaming lets a client roam while messages are published at all nodes: it
// receives QoS 1 in order, and QoS 2 exactly once.
func TestCampaignRoaming(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3)
	h := newRoamingClient(c, 1)
	acknowledged := h.run(60)
	t.Logf("%d connections, %d messages, figures of node 1: %+v", h.connections, len(acknowledged), c.nodes[0].sessions.Figures())
	if n := h.missing(acknowledged); n > 0 {
		t.Errorf("%d of %d messages are missing", n, len(acknowledged))
	}
	if h.newSessions != 1 {
		t.Errorf("%d new sessions", h.newSessions)
	}
	if h.outOfOrder > 0 {
		t.Errorf("%d messages came after later ones", h.outOfOrder)
	}
	for payload, n := range h.got {
		if number, _ := strconv.Atoi(payload[2:]); n > 1 && number%2 == 1 {
			t.Errorf("message %s of QoS 2 came %d times", payload, n)
		}
	}
	h.waitForOneNode()
}

// TestCampaignRoamingWithFaults loses requests and responses of every kind except claims:
// neither acknowledged messages nor the session are lost.
func TestCampaignRoamingWithFaults(t *testing.T) {
	t.Parallel()
	for kind, name := range map[byte]string{
		kindFetch: "fetch", kindConfirm: "confirm", kindCancel: "cancel", kindFlush: "flush", kindList: "list", kindPull: "pull", 0: "all",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClusterOverTCP(t, 3)
			random := rand.New(rand.NewPCG(uint64(kind), 3))
			c.injectFaults(func(request []byte) (f fault) {
				if request[1] != kindClaim && (kind == 0 || request[1] == kind) {
					f.before, f.after = random.IntN(6) == 0, random.IntN(6) == 0
					f.delay = time.Duration(random.IntN(2000)) * time.Microsecond
				}
				return f
			})
			h := newRoamingClient(c, uint64(kind))
			acknowledged := h.run(20)
			t.Logf("%d connections, %d messages, %d new sessions, figures of node 1: %+v", h.connections, len(acknowledged), h.newSessions, c.nodes[0].sessions.Figures())
			if n := h.missing(acknowledged); n > 0 && h.newSessions == 1 {
				t.Errorf("%d of %d messages are missing", n, len(acknowledged))
			}
			h.waitForOneNode()
		})
	}
}
