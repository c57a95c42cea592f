package replica

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/embedded/engine"
)

// agreeing is a consensus that commits at once and applies nothing.
type agreeing struct{ commands, bytes int }

func (a *agreeing) Begin(command []byte) func(context.Context) error {
	a.commands++
	a.bytes += len(command)
	return func(context.Context) error { return nil }
}

// tally is a CommitNotifier that counts.
type tally struct{ settled atomic.Int64 }

func (t *tally) Committed(*engine.Changes, error) { t.settled.Add(1) }

// BenchmarkSubmit measures a change in each mode without its encoding and storage: the
// store behind reports the outcome at once.
func BenchmarkSubmit(b *testing.B) {
	bare := func(dst []byte, _ []*engine.Changes) []byte { return dst }
	agreed := &agreeing{}
	for _, mode := range []struct {
		name  string
		enter func(*Store) error
	}{
		{"alone", func(*Store) error { return nil }},
		{"follow", func(s *Store) error { return s.Follow(b.Context()) }},
		{"lead", func(s *Store) error { _, err := s.Lead(b.Context(), agreed.Begin); return err }},
	} {
		for _, makers := range []int{1, 64} {
			b.Run(fmt.Sprint(mode.name, "-", makers), func(b *testing.B) {
				l := &idle{}
				s := Open(Options{Local: l, Encode: bare, Decode: decode})
				defer s.Close(b.Context())
				must(b, mode.enter(s))
				*agreed = agreeing{}
				b.ReportAllocs()
				b.ResetTimer()
				submitMany(b, s, makers)
				if agreed.commands > 0 {
					b.ReportMetric(float64(b.N)/float64(agreed.commands), "changes/batch")
				}
			})
		}
	}
}

// submitMany submits b.N changes from several goroutines and waits for all outcomes.
func submitMany(b *testing.B, s *Store, makers int) {
	b.Helper()
	var done tally
	var group sync.WaitGroup
	for i := range makers {
		group.Go(func() {
			for n := i; n < b.N; n += makers {
				s.WaitForCapacity()
				s.Submit(&engine.Changes{Done: &done, EndedSessions: nil})
			}
		})
	}
	group.Wait()
	for done.settled.Load() < int64(b.N) {
		runtime.Gosched()
	}
}

// idle is a store that stores nothing and reports the outcome within Submit, which a real
// one must not.
type idle struct{}

func (*idle) Load(context.Context) (*engine.Snapshot, error) { return &engine.Snapshot{}, nil }
func (*idle) Messages(context.Context, []uint64) ([]*engine.Message, error) {
	return nil, nil
}
func (*idle) WaitForCapacity()                      {}
func (*idle) Full() bool                            { return false }
func (*idle) Submit(c *engine.Changes)              { c.Done.Committed(c, nil) }
func (*idle) Err() error                            { return nil }
func (*idle) Close(context.Context) error           { return nil }
func (*idle) Apply(uint64, []*engine.Changes) error { return nil }
