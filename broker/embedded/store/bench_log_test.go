package store

import (
	"bytes"
	"fmt"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// BenchmarkApply applies encoded groups of published messages, as a follower does, while
// earlier messages are acknowledged. An operation is a message.
func BenchmarkApply(b *testing.B) {
	for _, d := range durabilities {
		for _, n := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/%d", d, n), func(b *testing.B) {
				s := fresh(b, Options{Durability: d})
				store(b, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
				defer cpu(b)()
				b.ResetTimer()
				for done, index := 0, uint64(1); done < b.N; done, index = done+n, index+1 {
					var group []*engine.Changes
					for i := range uint64(n) {
						id := uint64(done) + i + 1
						c := queued(1, small(id))
						if id > 1000 {
							c.Dequeued = []engine.QueueRecord{{SessionID: 1, Seq: id - 1000}}
						}
						group = append(group, c)
					}
					decoded, err := DecodeChanges(AppendChanges(nil, group))
					must(b, err, s.Apply(index, decoded))
				}
			})
		}
	}
}

// BenchmarkSnapshot takes a snapshot of 50,000 retained messages and 5,000
// sessions of 10 queued messages each, and restores it. An operation is all of it.
func BenchmarkSnapshot(b *testing.B) {
	from, to := fresh(b, Options{Durability: storage.Process}), fresh(b, Options{Durability: storage.Process})
	const retained, sessions, each = 50_000, 5_000, 10
	for id := range uint64(retained) {
		m := small(id + 1)
		m.Topic = fmt.Sprint("retained/topic/", id)
		from.WaitForCapacity()
		from.Submit(&engine.Changes{Retained: []engine.RetainedRecord{{Topic: m.Topic, Message: m}}})
	}
	for id := range uint64(sessions) {
		var ms []*engine.Message
		for n := range uint64(each) {
			ms = append(ms, small(retained+1+id*each+n))
		}
		c := queued(id+1, ms...)
		c.PutSessions = []engine.SessionRecord{session(id + 1)}
		from.WaitForCapacity()
		from.Submit(c)
	}
	_, err := from.Load(b.Context())
	must(b, err)
	whole := snap(b, from, Everything)
	b.Run("write", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			snap(b, from, Everything)
		}
		b.ReportMetric(float64(len(whole)), "bytes")
	})
	b.Run("restore", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			_, err := to.Restore(b.Context(), 1, Everything, bytes.NewReader(whole), nil)
			must(b, err)
		}
	})
	numbers := counting(1 << 40)
	b.Run("restore retained", func(b *testing.B) {
		part := snap(b, from, RetainedOnly)
		defer cpu(b)()
		for b.Loop() {
			_, err := to.Restore(b.Context(), 1, RetainedOnly, bytes.NewReader(part), numbers)
			must(b, err)
		}
	})
}
