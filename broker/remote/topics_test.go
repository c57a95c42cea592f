package remote

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/control"
	"signalbox/broker/topictree"
)

// keeper is a broker with the topic tree plugin.
func keeper(t *testing.T, tree *topictree.Tracker) (b *Broker, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := &scripted{answers: rich, respond: func(topic string, payload []byte) []byte {
		if topic != control.TopicTreeTopic {
			return nil
		}
		asked.Add(1)
		return control.TopicTree(context.Background(), tree, payload)
	}}
	return connected(t, server.serve(t)), asked
}

// TestKeptTreeInPages reads trees of which no answer is too large.
func TestKeptTreeInPages(t *testing.T) {
	t.Parallel()
	const many = 5000
	tree := topictree.New(topictree.Options{Allowance: many, Subscriptions: func() iter.Seq2[string, int] {
		return func(yield func(string, int) bool) {
			for i := range 2*recordsPerPage + 1 {
				if !yield(fmt.Sprintf("filter/%05d", i), i) {
					return
				}
			}
		}
	}})
	for i := range many {
		tree.Observe(fmt.Sprintf("plant/%05d", i), []byte{0xff}, 0, false)
	}
	b, asked := keeper(t, tree)
	for _, w := range []struct{ offset, count, commands int }{{0, -1, many/recordsPerPage + 1}, {0, 10, 1}, {many - 10, -1, 1}, {5, 2500, 3}, {0, 0, 1}, {2 * many, -1, 1}} {
		before := asked.Load()
		trees, err := b.ListTopics(t.Context(), 0, w.offset, w.count)
		if err != nil || len(trees) != 1 {
			t.Fatalf("%+v: %d trees, %v", w, len(trees), err)
		}
		if want := tree.Page(w.offset, w.count); !cmp.Equal(want, trees[0]) {
			t.Errorf("%+v (-there +here):\n%s", w, cmp.Diff(want, trees[0]))
		}
		if got := int(asked.Load() - before); got != w.commands {
			t.Errorf("%+v: %d commands, want %d", w, got, w.commands)
		}
	}
}
