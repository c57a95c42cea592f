package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// bounded changes both quotas.
func bounded(broker, user engine.Quota) func(*engine.Config, *engine.Parts) {
	return func(c *engine.Config, _ *engine.Parts) { c.Quota, c.UserQuota = broker, user }
}

// by returns a CONNECT of a user with a persistent session.
func by(user, id string) packet.Connect {
	h := keeps(id)
	h.Username, h.HasUsername = user, true
	return h
}

func (b *broker) wantRefused(t *testing.T, what engine.QuotaReason, n int64) {
	t.Helper()
	if got := b.Counts().QuotaRefused[what]; got != n {
		t.Errorf("%v was refused %d times, want %d", what, got, n)
	}
	check(t, b.Audit())
}

// TestQuotaOfSessions refuses one session too many of a user and of the broker.
func TestQuotaOfSessions(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), bounded(engine.Quota{Sessions: 3}, engine.Quota{Sessions: 2}))
	b.Connect(by("u", "1"))
	b.Connect(by("u", "2"))
	if _, err := b.TryConnect(by("u", "3")); err == nil || !strings.Contains(err.Error(), "0x97") {
		t.Errorf("the third session of a user: %v", err)
	}
	b.Connect(by("u", "2")) // takes over
	b.Connect(by("v", "4"))
	old := by("w", "5")
	old.Version = packet.V311
	if _, err := b.TryConnect(old); err == nil || !strings.Contains(err.Error(), "0x03") {
		t.Errorf("the fourth session of the broker: %v", err)
	}
	b.wantRefused(t, engine.QuotaSessions, 2)
	check(t, b.Forget(t.Context(), "1"))
	b.Connect(by("u", "3"))
	check(t, b.Audit())
}

// TestQuotaOfSubscriptions refuses filters, and counts them until they are removed.
func TestQuotaOfSubscriptions(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), bounded(engine.Quota{}, engine.Quota{SubscriptionBytes: 1000}))
	c := b.Connect(by("u", "1"))
	c.Subscribe("a", 1)
	c.Subscribe("b", 1)
	subscribe := func(filter string) byte {
		c.Send(packet.AppendSubscribe(nil, c.Version, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: filter, Options: 1}}}))
		p := c.Want(packet.TypeSuback)
		return p[len(p)-1]
	}
	if got := subscribe("c"); got != packet.ReasonQuotaExceeded {
		t.Errorf("SUBACK has %#x", got)
	}
	c.Subscribe("a", 2) // again
	b.wantRefused(t, engine.QuotaSubscriptions, 1)
	_, err := b.UnsubscribeClient("1", "a")
	check(t, err)
	if got := subscribe("c"); got != 1 {
		t.Errorf("after another one was given up, SUBACK has %#x", got)
	}
	check(t, b.Audit())
}

// TestQuotaOfQueues refuses messages that no recipient may queue, delivers to those who may,
// and counts the same after a restart.
func TestQuotaOfQueues(t *testing.T) {
	t.Parallel()
	quota := bounded(engine.Quota{}, engine.Quota{QueuedBytes: 3000})
	b := start(t, t.TempDir(), quota)
	b.wait(by("u", "away"), "t", "both")
	b.wait(by("v", "other"), "both")
	p := b.Connect(by("p", "p"))
	publish := func(topic string, qos byte, id uint16) byte {
		p.Publish(packet.Outgoing{Topic: topic, Payload: make([]byte, 899), QoS: qos, PacketID: id})
		return p.WantAck(map[byte]byte{1: packet.TypePuback, 2: packet.TypePubrec}[qos]).Reason
	}
	for id := range uint16(3) {
		if got := publish("t", 1, id+1); got != 0 {
			t.Fatalf("message %d: %#x", id, got)
		}
	}
	for qos := byte(1); qos <= 2; qos++ {
		if got := publish("t", qos, 10); got != packet.ReasonQuotaExceeded {
			t.Errorf("beyond the quota, QoS %d is answered %#x", qos, got)
		}
	}
	if got := publish("both", 1, 11); got != 0 {
		t.Errorf("though another client has it, it is answered %#x", got)
	}
	b.wantRefused(t, engine.QuotaQueued, 3)
	dir := b.dir
	b.close()
	b = start(t, dir, quota)
	check(t, b.Audit())
	p = b.Connect(by("p", "p"))
	if got := publish("t", 1, 12); got != packet.ReasonQuotaExceeded {
		t.Errorf("after a restart, it is answered %#x", got)
	}
	away := b.Connect(by("u", "away"))
	for range 3 {
		away.Ack(packet.TypePuback, away.WantMessage().ID)
	}
	until(t, "all is acknowledged", func() bool { return b.queue("away") == 0 })
	if got := publish("t", 1, 13); got != 0 {
		t.Errorf("once there is room, it is answered %#x", got)
	}
	check(t, b.Audit())
}

// wait opens a session that is subscribed to topics.
func (b *broker) wait(h packet.Connect, filters ...string) {
	c := b.Connect(h)
	for _, f := range filters {
		c.Subscribe(f, 2)
	}
	c.Disconnect()
	until(b.T, "the client is gone", func() bool { i, _, err := b.Client(h.ClientID); return err == nil && !i.Connected })
}

// TestQuotaOfRetained refuses to retain too much, and allows messages to be replaced.
func TestQuotaOfRetained(t *testing.T) {
	t.Parallel()
	quota := bounded(engine.Quota{RetainedMessages: 3}, engine.Quota{RetainedMessages: 2, RetainedBytes: 1000})
	b := start(t, t.TempDir(), quota)
	retain := func(user, topic string, size int) byte {
		c := b.Connect(by(user, user))
		c.Publish(packet.Outgoing{Topic: topic, Payload: make([]byte, size), QoS: 1, PacketID: 1, Retain: true})
		reason := c.WantAck(packet.TypePuback).Reason
		if reason == packet.ReasonNoMatchingSubscribers {
			return 0
		}
		return reason
	}
	for i, step := range []struct {
		user, topic string
		size        int
		want        byte
	}{
		{"u", "a", 300, 0}, {"u", "b", 300, 0}, {"u", "c", 1, packet.ReasonQuotaExceeded}, {"u", "a", 690, 0},
		{"u", "b", 400, packet.ReasonQuotaExceeded}, {"v", "c", 1, 0}, {"v", "d", 1, packet.ReasonQuotaExceeded},
		{"v", "a", 1, 0}, {"u", "b", 900, 0}, {"u", "b", 0, 0}, {"w", "e", 1, 0},
	} {
		if got := retain(step.user, step.topic, step.size); got != step.want {
			t.Errorf("step %d: %s retains %d bytes at %s: %#x, want %#x", i, step.user, step.size, step.topic, got, step.want)
		}
	}
	check(t, b.Audit())
	old := by("w", "old")
	old.Version = packet.V311
	b.wait(by("x", "x"), "z")
	c := b.Connect(old)
	c.Publish(packet.Outgoing{Topic: "z", Payload: []byte("z"), QoS: 1, PacketID: 1, Retain: true})
	c.WantAck(packet.TypePuback)
	if _, kept := b.RetainedOf("z"); kept || b.queue("x") != 1 {
		t.Error("what MQTT 3.1.1 may not retain is delivered, and not retained")
	}
	dir := b.dir
	b.close()
	check(t, start(t, dir, quota).Audit())
}

// TestQuotasAreExact makes random operations that are counted, with bounds that are often
// reached, and recounts after each step and restart.
func TestQuotasAreExact(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	broker := engine.Quota{Sessions: 8, SessionBytes: 5000, SubscriptionBytes: 6000, QueuedBytes: 6000, RetainedMessages: 6, RetainedBytes: 2000}
	user := engine.Quota{Sessions: 4, SessionBytes: 2500, SubscriptionBytes: 3000, QueuedBytes: 3000, RetainedMessages: 4, RetainedBytes: 1000}
	b := start(t, t.TempDir(), bounded(broker, user))
	here := map[string]*client{}
	for step := range 400 {
		id := fmt.Sprint("c", dice.IntN(10))
		h := by(fmt.Sprint("u", id[1]%3), id)
		if dice.IntN(3) == 0 {
			h.SessionExpiry, h.HasSessionExpiry = 0, false
		}
		if dice.IntN(2) == 0 {
			h.Will = &packet.Will{Topic: fmt.Sprint("t/", dice.IntN(8)), Payload: make([]byte, dice.IntN(900)), QoS: 1, Delay: uint32(dice.IntN(2) * 1000)}
		}
		h.CleanStart = dice.IntN(4) == 0
		c := here[id]
		switch dice.IntN(10) {
		case 0, 1:
			delete(here, id)
			if c, err := b.TryConnect(h); err == nil {
				here[id] = c
				t.Cleanup(func() { c.Close() })
			}
		case 8:
			if c != nil { // never released
				for n := range dice.IntN(100) {
					hold(c, uint16(dice.IntN(100)*100+n+1))
				}
				c.TrySend(packet.AppendAck(nil, c.Version, packet.TypePubrel, uint16(1+dice.IntN(100)), 0, "")) //nolint:errcheck // the connection may have ended
			}
		case 9:
			if dice.IntN(4) == 0 {
				b.suspend()
				check(t, b.Audit())
				b.resume()
				clear(here)
			}
		case 2:
			if c != nil {
				c.Close()
				delete(here, id)
				until(t, "the client is gone", func() bool { i, _, err := b.Client(id); return err != nil || !i.Connected })
			}
		case 3:
			b.SubscribeClient(id, fmt.Sprint([]string{"t/", "$share/g/t/"}[dice.IntN(2)], dice.IntN(4)), topics.Options{QoS: byte(dice.IntN(3))}) //nolint:errcheck // may be beyond a bound
		case 4:
			b.UnsubscribeClient(id, fmt.Sprint("t/", dice.IntN(4))) //nolint:errcheck // may not exist
		case 5, 6:
			m := &engine.Message{Topic: fmt.Sprint("t/", dice.IntN(8)), Payload: make([]byte, dice.IntN(500)), QoS: byte(dice.IntN(3)), Retain: dice.IntN(2) == 0,
				Publisher: id, Username: h.Username}
			check(t, b.Publish(m))
		default:
			if dice.IntN(8) == 0 {
				b.Forget(t.Context(), id) //nolint:errcheck // may not exist
				delete(here, id)
			}
			if dice.IntN(12) == 0 {
				dir := b.dir
				b.close()
				b, here = start(t, dir, bounded(broker, user)), map[string]*client{}
			}
		}
		until(t, fmt.Sprint("step ", step, " is counted"), func() bool { return b.Audit() == nil })
		if t.Failed() {
			t.Fatal(b.Audit())
		}
	}
	b.counted()
}
