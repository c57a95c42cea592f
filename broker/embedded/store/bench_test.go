package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// cpu reports the processor time of one operation, which does not depend on how busy the
// machine is. The returned function is called at the end.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// payload is of the size that most measurements of brokers use.
var payload = make([]byte, 64)

func small(id uint64) *engine.Message {
	return &engine.Message{ID: id, Topic: "bench/topic/level", Payload: payload, QoS: 1, CreatedAt: 1_700_000_000_000, Publisher: "publisher-12", Username: "user"}
}

var durabilities = []storage.Durability{storage.Full, storage.Process}

// BenchmarkSubmit has publishers that wait for each message to be stored, and consumers
// that acknowledge it once it is on the disk.
func BenchmarkSubmit(b *testing.B) {
	for _, d := range durabilities {
		for _, publishers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", d, publishers), func(b *testing.B) {
				s := fresh(b, Options{Durability: d})
				begin := &engine.Changes{}
				for id := range uint64(publishers) {
					begin.PutSessions = append(begin.PutSessions, session(id+1))
				}
				store(b, s, begin)
				var next atomic.Uint64
				defer cpu(b)()
				b.ResetTimer()
				var wg sync.WaitGroup
				for p := range uint64(publishers) {
					wg.Go(func() { publish(b, s, p+1, &next) })
				}
				wg.Wait()
			})
		}
	}
}

func publish(b *testing.B, s *opened, session uint64, next *atomic.Uint64) {
	var waiting []uint64
	for id := next.Add(1); id <= uint64(b.N); id = next.Add(1) {
		must(b, <-submit(s, queued(session, small(id))))
		if waiting = append(waiting, id); len(waiting) > 4 {
			s.Submit(dequeued(session, waiting[0]))
			waiting = waiting[1:]
		}
	}
	if len(waiting) > 0 {
		s.Submit(dequeued(session, waiting...))
	}
}

// count counts down what was committed.
type count struct{ sync.WaitGroup }

func (c *count) Committed(_ *engine.Changes, err error) {
	if err != nil {
		panic(err)
	}
	c.Done()
}

// BenchmarkOffline queues messages for a session that is away, and drains the
// queue when it is back, acknowledgements as they come: 20 to a change.
func BenchmarkOffline(b *testing.B) {
	for _, d := range durabilities {
		b.Run(string(d), func(b *testing.B) {
			s := fresh(b, Options{Durability: d})
			store(b, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
			defer cpu(b)()
			b.ReportAllocs()
			b.ResetTimer()
			var c count
			for id := range uint64(b.N) {
				change := queued(1, small(id+1))
				change.Done = &c
				c.Add(1)
				s.WaitForCapacity()
				s.Submit(change)
			}
			c.Wait()
			for id := uint64(1); id <= uint64(b.N); id += 20 {
				change := &engine.Changes{Owed: true, Done: &c}
				for seq := id; seq < id+20 && seq <= uint64(b.N); seq++ {
					change.Dequeued = append(change.Dequeued, engine.QueueRecord{SessionID: 1, Seq: seq})
				}
				c.Add(1)
				s.WaitForCapacity()
				s.Submit(change)
			}
			c.Wait()
		})
	}
}

// BenchmarkFanOut stores one message for 200 sessions that are away. An
// operation is one of the 200.
func BenchmarkFanOut(b *testing.B) {
	s := fresh(b, Options{})
	const sessions = 200
	begin := &engine.Changes{}
	for id := range uint64(sessions) {
		begin.PutSessions = append(begin.PutSessions, session(id+1))
	}
	store(b, s, begin)
	defer cpu(b)()
	var c count
	for n := uint64(1); n <= uint64(b.N)/sessions; n++ {
		m := small(n)
		put, taken := &engine.Changes{Done: &c, Messages: []*engine.Message{m}}, &engine.Changes{Owed: true, Done: &c}
		for id := range uint64(sessions) {
			r := engine.QueueRecord{SessionID: id + 1, Seq: n, Message: m, QoS: 1}
			put.Enqueued, taken.Dequeued = append(put.Enqueued, r), append(taken.Dequeued, r)
		}
		c.Add(1)
		s.Submit(put)
		c.Wait()
		c.Add(1)
		s.Submit(taken)
		c.Wait()
	}
}

// BenchmarkRetained replaces retained messages of 10,000 topics.
func BenchmarkRetained(b *testing.B) {
	s := fresh(b, Options{Durability: storage.Process})
	defer cpu(b)()
	var c count
	for id := range uint64(b.N) {
		m := small(id + 1)
		m.Topic = fmt.Sprint("retained/", id*7919%10_000)
		c.Add(1)
		s.WaitForCapacity()
		s.Submit(&engine.Changes{Done: &c, Messages: []*engine.Message{m}, Retained: []engine.RetainedRecord{{Topic: m.Topic, Message: m}}})
	}
	c.Wait()
}

// BenchmarkLoad starts with 100,000 retained messages and 10,000 sessions of 10
// queued messages each.
func BenchmarkLoad(b *testing.B) {
	s := open(b, b.TempDir(), Options{Durability: storage.Process})
	const retained, sessions, each = 100_000, 10_000, 10
	var c count
	for id := range uint64(retained) {
		m := small(id + 1)
		m.Topic = fmt.Sprint("retained/topic/", id)
		c.Add(1)
		s.WaitForCapacity()
		s.Submit(&engine.Changes{Done: &c, Messages: []*engine.Message{m}, Retained: []engine.RetainedRecord{{Topic: m.Topic, Message: m}}})
	}
	for id := range uint64(sessions) {
		ms := []*engine.Message{}
		for n := range uint64(each) {
			ms = append(ms, small(retained+1+id*each+n))
		}
		change := queued(id+1, ms...)
		change.PutSessions, change.Done = []engine.SessionRecord{session(id + 1)}, &c
		change.Subscribed = []engine.SubscriptionRecord{{SessionID: id + 1, Filter: fmt.Sprint("topic/", id)}}
		c.Add(1)
		s.WaitForCapacity()
		s.Submit(change)
	}
	c.Wait()
	defer cpu(b)()
	for b.Loop() {
		s = reopen(b, s)
	}
	if len(s.snapshot.Retained) != retained || len(s.snapshot.Sessions) != sessions {
		b.Errorf("found %d and %d", len(s.snapshot.Retained), len(s.snapshot.Sessions))
	}
	shut(b, s)
}

// BenchmarkMessages reads messages of a queue, which are adjacent or have messages of
// other queues between them. An operation is one message.
func BenchmarkMessages(b *testing.B) {
	const stored, atOnce = 50_000, 1000
	for _, apart := range []uint64{1, 2, 50} {
		b.Run(fmt.Sprintf("every %d", apart), func(b *testing.B) {
			s := fresh(b, Options{})
			store(b, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
			var all []*engine.Message
			for id := range uint64(stored) {
				all = append(all, small(id+1))
			}
			store(b, s, queued(1, all...))
			ids := make([]uint64, atOnce)
			for i := range ids {
				ids[i] = 1 + uint64(i)*apart
			}
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b)()
			for range b.N/atOnce + 1 {
				found, err := s.Messages(b.Context(), ids)
				if must(b, err); len(found) != atOnce {
					b.Fatalf("%d messages", len(found))
				}
			}
		})
	}
}
