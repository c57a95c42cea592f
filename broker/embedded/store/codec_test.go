package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

// everything is a group with records in which every field is set, and plain ones.
func everything() []*engine.Changes {
	shared, kept, plain := message(1, "a/ü"), message(math.MaxInt64, "kept"), &engine.Message{ID: 4, Topic: "plain"}
	shared.ExpiresAt = -1
	full := engine.SessionRecord{
		ID: math.MaxInt64, ClientID: "ü/c", Username: "u", Anonymous: true, Version: 4, Clean: true, KeepAlive: 65535,
		ExpiryInterval: math.MaxUint32, CreatedAt: -1, ConnectedAt: math.MaxInt64, DisconnectedAt: math.MinInt64,
		Address: "127.0.0.1:1", WillDueAt: 4, SentSeq: 5,
		Will: &engine.WillRecord{
			Topic: "w/ü", Payload: []byte{0, 255}, Properties: []byte{38, 0}, QoS: 2, Retain: true,
			Delay: math.MaxUint32, Expiry: 6, HasExpiry: true,
		},
	}
	return []*engine.Changes{
		{},
		{
			Owed:         true,
			PutSessions:  []engine.SessionRecord{full, session(8), {Will: &engine.WillRecord{}}},
			Subscribed:   []engine.SubscriptionRecord{{SessionID: 7, Filter: "$share/g/a/#", Options: 0xff, ID: math.MaxUint32}, {Filter: "b"}},
			Unsubscribed: []engine.SubscriptionRecord{{SessionID: 7, Filter: "$share/g/a/#"}},
			Messages:     []*engine.Message{shared, kept, plain},
			Enqueued: []engine.QueueRecord{
				{SessionID: 7, Seq: 1 << 40, Message: shared, QoS: 2, Retain: true, Released: true,
					SubscriptionIDs: []uint32{1, math.MaxUint32}, Share: "$share/g/a/#"},
				{SessionID: 8, Seq: 1, Message: kept, QoS: 1},
				{SessionID: 9, Seq: 1, Message: shared},
			},
			Released:      []engine.QueueRecord{{SessionID: 7, Seq: 1}},
			Received:      []engine.IncomingRecord{{SessionID: 7, PacketID: 65535}},
			Retained:      []engine.RetainedRecord{{Topic: "kept", Message: kept}, {Topic: "other", Message: shared}, {Topic: "cleared"}},
			Dequeued:      []engine.QueueRecord{{SessionID: math.MaxInt64, Seq: math.MaxInt64}},
			Forgotten:     []engine.IncomingRecord{{SessionID: 1}},
			EndedSessions: []uint64{1, 0, math.MaxInt64},
		},
		queued(3, shared, message(5, "t")),
	}
}

// TestCodec decodes what was appended to other bytes. Records that share a message share
// it again.
func TestCodec(t *testing.T) {
	t.Parallel()
	group := everything()
	b := AppendChanges([]byte("before"), group)
	got, err := DecodeChanges(b[len("before"):])
	must(t, err)
	if !reflect.DeepEqual(group, got) {
		t.Errorf("got %s, want %s", list(got), list(group))
	}
	shared := got[1].Messages[0]
	for i, m := range []*engine.Message{got[1].Enqueued[0].Message, got[1].Enqueued[2].Message, got[1].Retained[1].Message, got[2].Enqueued[0].Message} {
		if m != shared {
			t.Errorf("reference %d is to a message of its own", i)
		}
	}
	clear(b) // what was decoded is in memory of its own
	if !reflect.DeepEqual(group, got) {
		t.Error("what was decoded changed with what it was decoded from")
	}
}

// list returns changes as text.
func list(group []*engine.Changes) (text string) {
	for _, c := range group {
		text += fmt.Sprintf("%+v\n", *c)
	}
	return text
}

// TestCodecLeavesOut encodes nothing that is not needed: not the message of a dequeued
// row.
func TestCodecLeavesOut(t *testing.T) {
	t.Parallel()
	large := &engine.Message{ID: 1, Topic: "t", Payload: make([]byte, 1<<20)}
	c := &engine.Changes{Done: receipt(nil), Tag: 1, Dequeued: []engine.QueueRecord{{SessionID: 1, Seq: 2, Message: large, QoS: 1}}}
	b := AppendChanges(nil, []*engine.Changes{c})
	if len(b) > 10 {
		t.Errorf("got %d bytes", len(b))
	}
	got, err := DecodeChanges(b)
	must(t, err)
	if want := []*engine.Changes{{Dequeued: []engine.QueueRecord{{SessionID: 1, Seq: 2}}}}; !reflect.DeepEqual(want, got) {
		t.Errorf("got %s, want %s", list(got), list(want))
	}
}

// TestDecodeDamaged expects an error for an encoding that was cut short, is followed by
// other bytes, or has a length that it cannot have.
func TestDecodeDamaged(t *testing.T) {
	t.Parallel()
	whole := AppendChanges(nil, everything())
	for n := range whole {
		if _, err := DecodeChanges(whole[:n]); !errors.Is(err, errDamaged) {
			t.Fatalf("the first %d of %d bytes: got %v", n, len(whole), err)
		}
	}
	for name, b := range map[string][]byte{
		"nothing":               nil,
		"more behind":           append(whole, 0),
		"another version":       {codecVersion + 1, 0},
		"many changes":          {codecVersion, 0xff, 0xff, 0x03},
		"a member without name": {codecVersion, 1, 0x80, 0x40},
		"an empty member":       {codecVersion, 1, 0x80, 0x10, 0},
		"many records":          {codecVersion, 1, 0x80, 0x10, 0x7f, 1},
		"a long text":           {codecVersion, 1, hasUnsubscribed, 1, 1, 0x7f, 'a'},
		"an unknown message":    {codecVersion, 1, hasMessages, 1, 1},
		"a QoS of 3":            {codecVersion, 1, hasMessages, 1, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0},
		"unknown bits":          {codecVersion, 1, hasMessages, 1, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"a number of 65 bits":   {codecVersion, 1, hasMessages, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
	} {
		if got, err := DecodeChanges(b); !errors.Is(err, errDamaged) {
			t.Errorf("%s: got %s and %v", name, list(got), err)
		}
	}
}

// FuzzDecodeChanges expects what can be decoded to be the same after it was encoded and
// decoded again.
func FuzzDecodeChanges(f *testing.F) {
	f.Add(AppendChanges(nil, nil))
	f.Add(AppendChanges(nil, everything()))
	for _, c := range everything() {
		f.Add(AppendChanges(nil, []*engine.Changes{c}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		group, err := DecodeChanges(b)
		if err != nil {
			return
		}
		again, err := DecodeChanges(AppendChanges(nil, group))
		if err != nil || !reflect.DeepEqual(group, again) {
			t.Errorf("decoded %s, then %s (%v)", list(group), list(again), err)
		}
	})
}

// published returns a group as the engine makes it of messages for one session each,
// while earlier messages are acknowledged.
func published(n int, size int) (group []*engine.Changes) {
	for i := range uint64(n) {
		m := small(i + 1_000_000)
		m.Payload = make([]byte, size)
		c := queued(i%64+1, m)
		c.Dequeued = []engine.QueueRecord{{SessionID: i%64 + 1, Seq: i + 999_000}}
		group = append(group, c)
	}
	return group
}

func BenchmarkAppendChanges(b *testing.B) {
	for _, size := range []int{64, 4096} {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%dx%d", n, size), func(b *testing.B) {
				group := published(n, size)
				buf := AppendChanges(nil, group)
				b.ReportAllocs()
				b.ReportMetric(float64(len(buf))/float64(n), "bytes/message")
				for i := 0; i < b.N; i += n { // an operation is a message
					buf = AppendChanges(buf[:0], group)
				}
			})
		}
	}
}

func BenchmarkDecodeChanges(b *testing.B) {
	for _, size := range []int{64, 4096} {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%dx%d", n, size), func(b *testing.B) {
				encoded := AppendChanges(nil, published(n, size))
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					_, err := DecodeChanges(encoded)
					must(b, err)
				}
			})
		}
	}
}

// TestCodecOfModel applies random changes to two stores: to one as they are, to the other
// encoded and decoded.
func TestCodecOfModel(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	m := &model{rand: rand.New(rand.NewPCG(seed, 0)), retained: map[string]*engine.Message{}}
	straight, coded := fresh(t, Options{}), fresh(t, Options{})
	for range 50 {
		var group []*engine.Changes
		for range 1 + m.rand.IntN(30) {
			group = append(group, m.changes())
		}
		again, err := DecodeChanges(AppendChanges(nil, group))
		must(t, err)
		store(t, coded, again...)
		store(t, straight, group...)
	}
	if want, got := describe(whole(t, straight.Store)), describe(whole(t, coded.Store)); want != got {
		t.Errorf("seed %d: got\n%s\nwant\n%s", seed, got, want)
	}
}
