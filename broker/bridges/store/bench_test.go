package store

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// cpu reports the processor time of an operation, which does not depend on the load of the
// machine. The returned function is called at the end.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() {
		b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	}
}

var durabilities = []storage.Durability{storage.Full, storage.Process}

// entryOf100Bytes returns an entry of 100 bytes.
func entryOf100Bytes(n int) bridges.Entry {
	return bridges.Entry{Mapping: "m", Message: messaging.Message{
		Topic: "bench/topic/level", Payload: make([]byte, 83), QoS: 1, At: 1_800_000_000_000 + int64(n),
	}}
}

// deliver removes n entries, in batches.
func deliver(b *testing.B, q *Queue, n int) {
	after := uint64(0)
	ids := make([]uint64, 0, 256)
	for n > 0 {
		list, err := q.Peek(context.Background(), after, 256, 1<<20)
		must(b, err)
		if len(list) == 0 {
			<-q.Ready()
			continue
		}
		ids = ids[:0]
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		after = ids[len(ids)-1]
		q.Remove(ids)
		n -= len(list)
	}
}

// BenchmarkThrough delivers messages of sources that wait for each message, or of one with a
// bounded number in flight.
func BenchmarkThrough(b *testing.B) {
	for _, d := range durabilities {
		for _, sources := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/waiting=%d", d, sources), func(b *testing.B) {
				q := onlyQueue(b, fresh(b, Options{Durability: d}), wide)
				total := (b.N/sources + 1) * sources
				b.ReportAllocs()
				b.ResetTimer()
				defer cpu(b)()
				var wg sync.WaitGroup
				for range sources {
					wg.Go(func() {
						for i := range b.N/sources + 1 {
							must(b, <-putAsync(b, q, entryOf100Bytes(i)))
						}
					})
				}
				deliver(b, q, total)
				wg.Wait()
			})
		}
		b.Run(fmt.Sprintf("%s/streaming", d), func(b *testing.B) {
			q := onlyQueue(b, fresh(b, Options{Durability: d}), wide)
			b.ReportAllocs()
			b.ResetTimer()
			defer cpu(b)()
			go stream(q, b.N)
			deliver(b, q, b.N)
		})
	}
}

// stream puts messages, with at most a thousand in flight.
func stream(q *Queue, n int) {
	slots := make(chan struct{}, 1000)
	for i := range n {
		slots <- struct{}{}
		q.Put(entryOf100Bytes(i), func(error) { <-slots })
	}
}

// BenchmarkBacklog drains a queue whose messages are in the file.
func BenchmarkBacklog(b *testing.B) {
	q := onlyQueue(b, fresh(b, Options{}), wide)
	stream(q, b.N)
	barrier(b, q)
	b.ResetTimer()
	defer cpu(b)()
	deliver(b, q, b.N)
	barrier(b, q)
}

// BenchmarkEvict puts messages into a full queue that drops the oldest.
func BenchmarkEvict(b *testing.B) {
	q := onlyQueue(b, fresh(b, Options{}), bridges.Bounds{Messages: 100_000, DropOldest: true})
	stream(q, 100_000)
	b.ResetTimer()
	defer cpu(b)()
	stream(q, b.N)
	barrier(b, q)
}

// BenchmarkOpen opens a file with a hundred queues.
func BenchmarkOpen(b *testing.B) {
	const queues, each = 100, 100_000
	dir := b.TempDir()
	s := open(b, dir, Options{Durability: storage.Process})
	var names []string
	for i := range queues {
		names = append(names, fmt.Sprint("c", i))
	}
	connect(b, s, names...)
	for _, name := range names {
		stream(queueOf(b, s, name, wide), each)
	}
	shut(b, s)
	b.ResetTimer()
	for b.Loop() {
		s := open(b, dir, Options{})
		for _, name := range names {
			q := queueOf(b, s, name, wide)
			if list, err := q.Peek(context.Background(), 0, 256, 1<<20); len(list) != 256 || err != nil {
				b.Fatalf("got %d, %v", len(list), err)
			}
		}
		b.StopTimer()
		shut(b, s)
		b.StartTimer()
	}
}
