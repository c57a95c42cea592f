package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
	"signalbox/scripts/suite"
)

// TestWeight compares weights with the length of the encoding.
func TestWeight(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	r := &records{rand.New(rand.NewPCG(seed, 0))}
	for i := range 20_000 {
		c := r.changes()
		if weight, size := weigh(c), len(store.AppendChanges(nil, []*engine.Changes{c})); size > weight {
			t.Fatalf("seed %d, change %d: the weight is %d, the encoding has %d bytes: %+v", seed, i, weight, size, c)
		}
	}
}

// records returns random records, with numbers as large as they can be.
type records struct{ *rand.Rand }

func (r *records) text() string {
	return strings.Repeat("x", r.IntN(1+r.IntN(200)))
}

func (r *records) number() uint64 { return math.MaxUint64 >> r.IntN(64) }

func (r *records) time() int64 { return math.MaxInt64 >> r.IntN(63) }

func (r *records) message() *engine.Message {
	return &engine.Message{
		ID: r.number(), Topic: r.text(), Payload: []byte(r.text()), Properties: []byte(r.text()), QoS: 2, Retain: true,
		CreatedAt: r.time(), ExpiresAt: r.time(), Publisher: r.text(), Username: r.text(),
	}
}

func (r *records) session() engine.SessionRecord {
	s := engine.SessionRecord{
		ID: r.number(), ClientID: r.text(), Username: r.text(), Anonymous: true, Version: 5, Clean: true, KeepAlive: math.MaxUint16,
		ExpiryInterval: math.MaxUint32, CreatedAt: r.time(), ConnectedAt: r.time(), DisconnectedAt: r.time(), Address: r.text(),
		WillDueAt: r.time(), SentSeq: r.number(),
	}
	if r.IntN(2) == 0 {
		s.Will = &engine.WillRecord{
			Topic: r.text(), Payload: []byte(r.text()), Properties: []byte(r.text()), QoS: 2, Retain: true,
			Delay: math.MaxUint32, Expiry: math.MaxUint32, HasExpiry: true,
		}
	}
	return s
}

func (r *records) queued(m *engine.Message) engine.QueueRecord {
	q := engine.QueueRecord{SessionID: r.number(), Seq: r.number(), Message: m, QoS: 2, Retain: true, Released: true, Share: r.text()}
	for range r.IntN(1 + r.IntN(100)) {
		q.SubscriptionIDs = append(q.SubscriptionIDs, math.MaxUint32>>r.IntN(32))
	}
	return q
}

// changes returns changes of up to three kinds, with up to three records of each.
func (r *records) changes() *engine.Changes {
	c := &engine.Changes{Owed: r.IntN(2) == 0}
	ms := []*engine.Message{r.message(), r.message()}
	subscription := func() engine.SubscriptionRecord {
		return engine.SubscriptionRecord{SessionID: r.number(), Filter: r.text(), Options: 255, ID: math.MaxUint32}
	}
	steps := []func(){
		func() { c.PutSessions = append(c.PutSessions, r.session()) },
		func() { c.Subscribed = append(c.Subscribed, subscription()) },
		func() { c.Unsubscribed = append(c.Unsubscribed, subscription()) },
		func() { c.Messages = append(c.Messages, r.message()) },
		func() { c.Enqueued = append(c.Enqueued, r.queued(ms[r.IntN(2)])) },
		func() { c.Released = append(c.Released, r.queued(nil)) },
		func() { c.Dequeued = append(c.Dequeued, r.queued(ms[0])) },
		func() {
			c.Retained = append(c.Retained, engine.RetainedRecord{Topic: r.text(), Message: ms[r.IntN(2)]})
		},
		func() { c.Retained = append(c.Retained, engine.RetainedRecord{Topic: r.text()}) },
		func() {
			c.Received = append(c.Received, engine.IncomingRecord{SessionID: r.number(), PacketID: math.MaxUint16})
		},
		func() {
			c.Forgotten = append(c.Forgotten, engine.IncomingRecord{SessionID: r.number(), PacketID: math.MaxUint16})
		},
		func() { c.EndedSessions = append(c.EndedSessions, r.number()) },
	}
	for range 1 + r.IntN(3) {
		step := steps[r.IntN(len(steps))]
		for range 1 + r.IntN(3) {
			step()
		}
	}
	return c
}

// BenchmarkWeigh weighs a message for one or many recipients.
func BenchmarkWeigh(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := &engine.Message{ID: 1, Topic: "a/b", Payload: make([]byte, 64)}
			c := &engine.Changes{Messages: []*engine.Message{m}}
			for i := range n {
				c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: uint64(i), Seq: 1, Message: m, QoS: 1})
			}
			for b.Loop() {
				weigh(c)
			}
		})
	}
}
