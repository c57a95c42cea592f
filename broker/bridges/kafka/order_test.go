package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/kafka"
)

// delayedRecord delays one record on its way into its batch, and meanwhile has the client send the
// records before it.
type delayedRecord struct {
	flush   func()
	once    sync.Once
	refused chan struct{} // closed when the client has seen that records were refused
}

const delayedValue = "late"

// OnProduceRecordUnbuffered observes the outcome of records.
func (l *delayedRecord) OnProduceRecordUnbuffered(_ *kgo.Record, err error) {
	if err != nil {
		l.once.Do(func() { close(l.refused) })
	}
}

// partition is called for each record before it is added to its batch.
func (l *delayedRecord) partition(string) func(*kgo.Record, int) int {
	return func(r *kgo.Record, _ int) int {
		if strings.HasPrefix(string(r.Value), delayedValue) {
			l.flush()
			select {
			case <-l.refused:
			case <-time.After(100 * time.Millisecond): // nothing is sent while a record is missing
			}
		}
		return 0
	}
}

// TestLatecomer checks the order if the client sends the first part of a portion, and the broker
// refuses it, before the rest is in its batch.
func TestLatecomer(t *testing.T) {
	t.Parallel()
	for _, options := range []string{``, `"idempotent":false`} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known topic %t", options, known), func(t *testing.T) {
				t.Parallel()
				p := startPeer(t, kfake.SeedTopics(1, "t"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "5000"}))
				c := compile(t, p.brokers(), options, ``)
				l := &delayedRecord{refused: make(chan struct{})}
				var flushes sync.WaitGroup
				defer flushes.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), bridgestest.Patience)
				defer cancel()
				l.flush = func() { flushes.Go(func() { kafka.Client(c).Flush(ctx) }) }
				kafka.WithOptions(c, kgo.WithHooks(l), kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(l.partition)))
				large := strings.Repeat("x", 2400) // the broker refuses two of them in one batch
				fills := []string{large, large, large, delayedValue, ""}
				size := len(fills)
				if known {
					fills = append(make([]string, size), fills...)
				}
				var entries []*bridges.Entry
				for i, fill := range fills {
					entries = append(entries, bridgestest.Entry(uint64(i+1), "t", fmt.Sprint(fill, " ", i)))
				}
				o := bridgestest.Drive(t, c, entries, size, nil)
				if len(o.Rejected) > 0 || len(o.Failures) > 0 {
					t.Errorf("got rejected %v and failures %q", o.Rejected, o.Failures)
				}
				inOrder(t, p.consume(t, "t", len(entries)), map[string]int{"t": len(entries)})
			})
		}
	}
}
