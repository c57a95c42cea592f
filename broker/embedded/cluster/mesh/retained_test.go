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

// agreement is a log of changes of retained messages that all nodes share. Each
// node makes them in its order, and in its own time.
type agreement struct {
	t testing.TB

	mu      sync.Mutex
	entries []entry
	more    chan struct{} // closed and replaced with each entry
	closed  bool
	makers  sync.WaitGroup
	applied map[int]int // entries, by node
}

// entry is what was submitted, which is not to be read once it is settled.
type entry struct {
	records []engine.RetainedRecord
	changes *engine.Changes
}

// agreeing is a store in front of which such changes go to the log.
type agreeing struct {
	engine.Store
	log *agreement
}

func (s agreeing) Submit(c *engine.Changes) {
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

// follow has a node make what is in the log. An entry is settled when the first
// node has made it.
func (l *agreement) follow(n *node, s engine.Store) {
	l.makers.Go(func() {
		random := rand.New(rand.NewPCG(uint64(n.id), 3)) //nolint:gosec // a test's
		for i := 0; ; i++ {
			made, ok := l.await(i)
			if !ok {
				return
			}
			pause := time.NewTimer(time.Duration(random.IntN(3000)) * time.Microsecond)
			<-pause.C
			check(l.t, n.ApplyRetained(decoded(made.records), func(c *engine.Changes) error {
				done := make(outcome, 1)
				c.Done = done
				s.Submit(c)
				return <-done
			}))
			if l.first(n.id, i) {
				made.changes.Done.Settled(made.changes, nil)
			}
		}
	})
}

// await gives an entry. It answers false if there will be none.
func (l *agreement) await(i int) (entry, bool) {
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

// first notes what a node has made, and tells whether no other one had.
func (l *agreement) first(node, i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := true
	for _, n := range l.applied {
		first = first && n <= i
	}
	l.applied[node] = i + 1
	return first
}

func (l *agreement) allApplied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.applied {
		if n < len(l.entries) {
			return false
		}
	}
	return true
}

func (l *agreement) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.more)
		l.more = make(chan struct{})
	}
	l.mu.Unlock()
	l.makers.Wait()
}

// decoded is what comes out of a log: other messages that say the same.
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

func (o outcome) Settled(_ *engine.Changes, err error) { o <- err }

func agreed(f *fabric) {
	f.log = &agreement{t: f.t, more: make(chan struct{}), applied: map[int]int{}}
}

// TestRetained gives a retained message to whoever subscribes at another node at
// the same time as it is published, one way or the other.
func TestRetained(t *testing.T) { virtually(t, testRetained) }

func testRetained(t *testing.T) {
	_, n := weave(t, 2, agreed)
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

// TestRetainedAlike has all nodes publish retained messages at once, with links
// that break. In the end they have the same.
func TestRetainedAlike(t *testing.T) {
	t.Parallel()
	f, n := weave(t, 3, overTCP, agreed)
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
					f.breaks(i+1, (i+1)%3+1, false)
				}
			}
		})
	}
	wg.Wait()
	until(t, "all nodes have made all changes", f.log.allApplied)
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
