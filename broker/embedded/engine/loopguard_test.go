package engine_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// registry is a loop guard that admits all messages, and a tap. It records the Serial of each
// message by topic.
type registry struct {
	mu      sync.Mutex // guards what follows
	serials map[string][]uint64
}

// register records the messages of a broker until it is closed.
func register(b *broker) *registry {
	r := &registry{serials: map[string][]uint64{}}
	b.SetLoopGuard(r)
	b.Open("#", r)
	return r
}

func (r *registry) note(topic string, serial uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serials[topic] = append(r.serials[topic], serial)
}

func (r *registry) Identity() string                { return "here" }
func (r *registry) Admit(string, []byte, byte) bool { return true }
func (r *registry) Withdraw(string, []byte)         {}

func (r *registry) Depart(topic string, properties []byte, serial uint64) []byte {
	r.note(topic, serial)
	return properties
}

func (r *registry) Keeps() bool { return false }
func (r *registry) Take(m messaging.Message, _ messaging.CommitNotifier) {
	r.note(m.Topic, m.Serial)
}

// want checks how often messages were seen, and that each has one Serial.
func (r *registry) want(t *testing.T, times map[string]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []uint64
	for topic, n := range times {
		got := r.serials[topic]
		if len(got) != n || got[0] == 0 || len(slices.Compact(slices.Clone(got))) != 1 {
			t.Errorf("%q was given with the serials %d, want the same one %d times", topic, got, n)
		}
		all = append(all, got[0])
	}
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("messages share serials: %d", all)
	}
}

// bridge connects a bridge of another broker, with a persistent session.
func (b *broker) bridge(clientID string) *client {
	h := keeps(clientID)
	h.Peer = "there"
	return b.Connect(h)
}

func wantPayloads(c *client, payloads ...string) {
	c.T.Helper()
	for _, want := range payloads {
		if m := c.WantMessage(); m.Payload != want {
			c.T.Errorf("got %q, want %q", m.Payload, want)
		}
	}
}

// TestPeerNameFits leaves the broker's name out of a CONNACK that would be too large
// with it [MQTT-3.2.2-20].
func TestPeerNameFits(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	register(b)
	connack := func(peer string, limit uint32) []byte {
		c := b.Dial()
		h := fresh("bridge")
		h.Version, h.ReceiveMaximum, h.Peer, h.MaximumPacketSize = packet.V5, 1, peer, limit
		c.Send(packet.AppendConnect(nil, &h))
		return c.Want(packet.TypeConnack)
	}
	short, long := connack("", 0), connack("there", 0)
	if !bytes.Contains(long, []byte(packet.BridgeProperty)) || len(long) <= len(short) {
		t.Fatalf("the name is not told: % x", long)
	}
	for limit := len(short); limit < len(long); limit++ {
		if got := connack("there", uint32(limit)); !bytes.Equal(got, short) {
			t.Errorf("a limit of %d bytes: got %d: % x", limit, len(got), got)
		}
	}
	if got := connack("there", uint32(len(long))); !bytes.Equal(got, long) {
		t.Errorf("a limit of %d bytes: got % x", len(long), got)
	}
}

// TestSerialOutlivesMemory delivers messages that are in the store only to bridges: each has
// one Serial for all recipients and repetitions, also after a restart.
func TestSerialOutlivesMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	r := register(b)
	for _, id := range []string{"away", "gone"} {
		c := b.bridge(id)
		c.Subscribe("t/#", 2)
		c.Disconnect()
	}
	near := b.bridge("near")
	near.Subscribe("t/#", 2)
	check(t, b.Publish(&engine.Message{Topic: "t/a", Payload: []byte("1"), QoS: 2}))
	wantPayloads(near, "1")
	near.Disconnect()
	check(t, b.Publish(&engine.Message{Topic: "t/b", Payload: []byte("2"), QoS: 1, Retain: true}))
	for _, id := range []string{"near", "away"} {
		wantPayloads(b.bridge(id), "1", "2")
	}
	wantPayloads(b.bridge("near"), "1", "2")
	r.want(t, map[string]int{"t/a": 5, "t/b": 4}) // including the tap
	b.close()

	b = start(t, dir)
	r = register(b)
	check(t, b.Publish(&engine.Message{Topic: "t/c", Payload: []byte("3"), QoS: 1}))
	for _, id := range []string{"near", "away", "gone"} {
		wantPayloads(b.bridge(id), "1", "2", "3")
	}
	late := b.bridge("late")
	late.Subscribe("t/b", 2)
	wantPayloads(late, "2")
	r.want(t, map[string]int{"t/a": 3, "t/b": 4, "t/c": 4})
}
