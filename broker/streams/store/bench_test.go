package store

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// cpu reports the processor time of one operation, which does not depend on
// other load of the machine. The returned function is called at the end.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

var durabilities = []storage.Durability{storage.Full, storage.Process}

// hundred returns messages of 100 bytes.
func hundred(n int) (all []messaging.Message) {
	for i := range int64(n) {
		all = append(all, messaging.Message{Topic: "bench/topic/level", Payload: make([]byte, 83), QoS: 1, At: 1_800_000_000_000 + i})
	}
	return all
}

// BenchmarkAppend measures one caller that appends messages, in batches or one
// by one, and waits for the last. An operation is a message.
func BenchmarkAppend(b *testing.B) {
	for _, d := range durabilities {
		for _, size := range []int{256, 1} {
			for _, budget := range []int64{0, 32 << 20} {
				b.Run(fmt.Sprintf("%s/%d/budget=%d", d, size, budget), func(b *testing.B) {
					s := fresh(b, Options{Durability: d, MaxStreamBytes: budget})
					l, list := stream(b, s, "s", 0), hundred(size)
					b.ReportAllocs()
					b.ResetTimer()
					defer cpu(b)()
					for range b.N/size + 1 {
						must(b, l.Append(context.Background(), list, nil, func(err error) { must(b, err) }))
					}
					must(b, l.Close(context.Background()))
				})
			}
		}
	}
}

// BenchmarkCommitted measures publishers that wait for the commit of each
// message.
func BenchmarkCommitted(b *testing.B) {
	for _, d := range durabilities {
		for _, publishers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", d, publishers), func(b *testing.B) {
				s := fresh(b, Options{Durability: d})
				l, list := stream(b, s, "s", 0), hundred(1)
				b.ResetTimer()
				defer cpu(b)()
				var wg sync.WaitGroup
				for range publishers {
					wg.Go(func() {
						for range b.N/publishers + 1 {
							appendAndWait(b, l, list...)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkRead reads a million messages that were stored in full blocks or one
// by one. An operation is a message.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{256, 1} {
		s := fresh(b, Options{Durability: storage.Process})
		l, list := stream(b, s, "s", 0), hundred(size)
		total := 1_000_000
		if size == 1 {
			total = 100_000
		}
		for range total / size {
			if size == 1 {
				appendAndWait(b, l, list...)
			} else {
				appendAsync(b, l, list...)
			}
		}
		for _, reverse := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/reverse=%t", size, reverse), func(b *testing.B) {
				b.ReportAllocs()
				defer cpu(b)()
				for n := 0; n < b.N; {
					must(b, l.Read(context.Background(), allTimes, reverse, func(messaging.Message) bool {
						n++
						return n < b.N
					}))
				}
			})
		}
	}
}
