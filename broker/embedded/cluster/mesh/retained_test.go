package mesh_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// sharedLog is a log of changes of retained messages. Each node applies them in order, at its
// own pace.
type sharedLog struct {
	t testing.TB

	mu       sync.Mutex
	entries  []entry
	more     chan struct{} // closed and replaced with each entry
	closed   bool
	appliers sync.WaitGroup
	applied  map[int]int // entries, by node
}

// entry is what was submitted; it must not be read once its outcome was reported.
type entry struct {
	records []engine.RetainedRecord
	changes *engine.Changes
}

// logStore is a store that sends changes of retained messages to the log.
type logStore struct {
	engine.Store
	log *sharedLog
}

func (s logStore) Submit(c *engine.Changes) {
	if len(c.Retained) == 0 || c.Owed {
		s.Store.Submit(c)
		return
	}
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry{slices.Clone(c.Retained), c})
	close(l.more)
	l.more = make(chan struct{})
}

// applyTo applies the log at a node. An entry is committed when the first node has applied it.
func (l *sharedLog) applyTo(n *node, s engine.Store) {
	l.appliers.Go(func() {
		random := rand.New(rand.NewPCG(uint64(n.id), 3)) //nolint:gosec // a test
		for i := 0; ; i++ {
			entry, ok := l.await(i)
			if !ok {
				return
			}
			pause := time.NewTimer(time.Duration(random.IntN(3000)) * time.Microsecond)
			<-pause.C
			check(l.t, n.ApplyRetained(decoded(entry.records), func(c *engine.Changes) error {
				done := make(outcome, 1)
				c.Done = done
				s.Submit(c)
				return <-done
			}))
			if l.first(n.id, i) {
				entry.changes.Done.Committed(entry.changes, nil)
			}
		}
	})
}

// await returns an entry, or false if there will be none.
func (l *sharedLog) await(i int) (entry, bool) {
	for {
		l.mu.Lock()
		if i < len(l.entries) {
			defer l.mu.Unlock()
			return l.entries[i], true
		}
		more, closed := l.more, l.closed
		l.mu.Unlock()
		if closed {
			return entry{}, false
		}
		<-more
	}
}

// first records what a node has applied, and reports whether it was the first.
func (l *sharedLog) first(node, i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := true
	for _, n := range l.applied {
		first = first && n <= i
	}
	l.applied[node] = i + 1
	return first
}

func (l *sharedLog) allApplied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.applied {
		if n < len(l.entries) {
			return false
		}
	}
	return true
}

func (l *sharedLog) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.more)
		l.more = make(chan struct{})
	}
	l.mu.Unlock()
	l.appliers.Wait()
}

// decoded returns copies, as if decoded from a log.
func decoded(records []engine.RetainedRecord) (all []engine.RetainedRecord) {
	for _, r := range records {
		if m := r.Message; m != nil {
			r.Message = &engine.Message{
				Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: true,
				CreatedAt: m.CreatedAt, Publisher: m.Publisher, Username: m.Username,
			}
		}
		all = append(all, r)
	}
	return all
}

type outcome chan error

func (o outcome) Committed(_ *engine.Changes, err error) { o <- err }

func withSharedLog(f *network) {
	f.log = &sharedLog{t: f.t, more: make(chan struct{}), applied: map[int]int{}}
}

// TestRetained subscribes at one node while a retained message is published at another: the
// client receives it in any case.
func TestRetained(t *testing.T) { inVirtualTime(t, testRetained) }

func testRetained(t *testing.T) {
	_, n := startNodes(t, 2, withSharedLog)
	reader, c := n[1].connect("reader", false), n[0].connect("c", false)
	for i := range 200 {
		topic := fmt.Sprint("topic/", i)
		published := make(chan struct{})
		go func() {
			defer close(published)
			c.publish(packet.Outgoing{Topic: topic, Payload: []byte("x"), QoS: byte(i % 2), PacketID: 1, Retain: true})
		}()
		reader.Send(packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: topic}}}))
		came := 0
		reader.until(packet.TypeSuback, func(message) { came++ })
		if came == 0 {
			reader.next()
		}
		<-published
		reader.Send(packet.AppendUnsubscribe(nil, packet.V5, &packet.Unsubscribe{PacketID: 1, Filters: []string{topic}}))
		reader.until(packet.TypeUnsuback, func(message) {})
	}
}

// TestRetainedConverges publishes retained messages at all nodes at once while links break. In
// the end all nodes have the same.
func TestRetainedConverges(t *testing.T) {
	t.Parallel()
	f, n := startNodes(t, 3, overTCP, withSharedLog)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := n[i].connect(fmt.Sprint("c", i), false)
			for k := range 200 {
				o := packet.Outgoing{Topic: fmt.Sprint(k % 7), Payload: fmt.Append(nil, i, k), QoS: byte(k % 2), PacketID: uint16(k + 1), Retain: true}
				if k%5 == 0 {
					o.Payload = nil
				}
				c.publish(o)
				if k%50 == 0 {
					f.disconnect(i+1, (i+1)%3+1, false)
				}
			}
		})
	}
	wg.Wait()
	until(t, "all nodes have applied all changes", f.log.allApplied)
	until(t, "all have the same", func() bool {
		first := n[0].retained()
		return maps.Equal(first, n[1].retained()) && maps.Equal(first, n[2].retained())
	})
}

func (n *node) retained() map[string]string {
	all := map[string]string{}
	_, list := n.Retained("", 0, -1)
	for _, m := range list {
		all[m.Topic] = string(m.Payload)
	}
	return all
}
