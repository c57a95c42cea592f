package bridges_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/store"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// BenchmarkThrough takes messages of QoS 1 from publishers that wait for each acknowledgement,
// and delivers them to a target that accepts them at once, with a store on a file.
func BenchmarkThrough(b *testing.B) {
	for _, d := range []storage.Durability{storage.Full, storage.Process} {
		for _, publishers := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("durability %v, %d publishers", d, publishers), func(b *testing.B) {
				s, err := store.Open(context.Background(), filepath.Join(b.TempDir(), "bridges.db"),
					store.Options{Durability: d, Seal: plainSeal{}, Log: slog.New(slog.DiscardHandler)})
				must(b, err)
				b.Cleanup(func() { must(b, s.Close(context.Background())) })
				k := &bridgestest.Kind{}
				r := bridgestest.Start(b, k, s)
				r.Set(doc(conn("c", `"maxQueuedMessages":10000000`)))
				payload := make([]byte, 100)
				b.ResetTimer()
				through(b, r, publishers, payload)
				arrives(b, k.Target("t"), b.N)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			})
		}
	}
}

// through publishes b.N messages, each publisher one at a time.
func through(b *testing.B, r *bridgestest.Rig, publishers int, payload []byte) {
	b.Helper()
	var running sync.WaitGroup
	for p := range publishers {
		running.Go(func() {
			topic, done := fmt.Sprint("a/", p), make(chan error, 1)
			for range b.N/publishers + min(1, max(0, b.N%publishers-p)) {
				r.Broker.ClientPublishNotify(messaging.Message{Topic: topic, Payload: payload, QoS: 1}, done)
				if err := <-done; err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}
