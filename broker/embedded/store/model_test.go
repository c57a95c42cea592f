package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

// model is a simple model of what should be stored.
type model struct {
	rand     *rand.Rand
	sessions []engine.StoredSession
	retained map[string]*engine.Message
	messages []*engine.Message // the last ones made
	session  uint64            // the last ID
	message  uint64
	seq      uint64
}

// TestModel makes random changes, many to a transaction, and compares the store with the
// model after each restart.
func TestModel(t *testing.T) {
	t.Parallel()
	for range 4 {
		seed := suite.Seed(t)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := &model{rand: rand.New(rand.NewPCG(seed, 0)), retained: map[string]*engine.Message{}}
			s := open(t, t.TempDir(), Options{})
			defer func() { shut(t, s) }()
			for range 6 {
				for range m.rand.IntN(20) {
					var receipts []receipt
					for range m.rand.IntN(50) {
						receipts = append(receipts, submit(s, m.changes()))
					}
					for _, r := range receipts {
						must(t, <-r)
					}
				}
				sound(t, s)
				s = reopen(t, s)
				if diff := cmp.Diff(describe(m.snapshot()), describe(s.snapshot)); diff != "" {
					t.Fatalf("after a restart (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func (m *model) snapshot() *engine.Snapshot {
	s := &engine.Snapshot{Sessions: m.sessions}
	for _, kept := range m.retained {
		s.Retained = append(s.Retained, kept)
	}
	return s
}

// changes returns up to three random steps as one change.
func (m *model) changes() *engine.Changes {
	c := &engine.Changes{Owed: m.chance(3)}
	steps := []func(*engine.Changes){m.begin, m.publish, m.publish, m.publish, m.requeue, m.retain, m.take, m.take, m.take, m.release, m.end}
	// The fields of Changes are applied in a fixed order; so one kind of step only.
	step := steps[m.rand.IntN(len(steps))]
	for range 1 + m.rand.IntN(3) {
		step(c)
	}
	return c
}

func (m *model) chance(of int) bool { return m.rand.IntN(of) == 0 }

func (m *model) begin(c *engine.Changes) {
	m.session++
	r := session(m.session)
	c.PutSessions = append(c.PutSessions, r)
	sub := engine.SubscriptionRecord{SessionID: m.session, Filter: "a", Options: byte(m.rand.IntN(3))}
	c.Subscribed = append(c.Subscribed, sub)
	m.sessions = append(m.sessions, engine.StoredSession{SessionRecord: r, Subscriptions: []engine.SubscriptionRecord{sub}})
}

func (m *model) newMessage(c *engine.Changes) *engine.Message {
	m.message++
	made := message(m.message, fmt.Sprint("topic ", m.rand.IntN(5)))
	c.Messages = append(c.Messages, made)
	m.messages = append(m.messages, made)
	m.messages = m.messages[max(0, len(m.messages)-10):]
	return made
}

// publish enqueues a new message for about half of the sessions, and sometimes retains
// it.
func (m *model) publish(c *engine.Changes) {
	made := m.newMessage(c)
	for i := range m.sessions {
		if m.chance(2) {
			m.enqueue(c, &m.sessions[i], made)
		}
	}
	if m.chance(3) {
		c.Retained = append(c.Retained, engine.RetainedRecord{Topic: made.Topic, Message: made})
		m.retained[made.Topic] = made
	}
}

func (m *model) enqueue(c *engine.Changes, s *engine.StoredSession, made *engine.Message) {
	m.seq++
	r := engine.QueueRecord{SessionID: s.ID, Seq: m.seq, Message: made, QoS: 2, SubscriptionIDs: []uint32{uint32(m.seq)}}
	c.Enqueued = append(c.Enqueued, r)
	s.Queue = append(s.Queue, r)
}

// requeue enqueues a message that was enqueued before and may be deleted by now.
func (m *model) requeue(c *engine.Changes) {
	if len(m.messages) > 0 && len(m.sessions) > 0 {
		m.enqueue(c, &m.sessions[m.rand.IntN(len(m.sessions))], m.messages[m.rand.IntN(len(m.messages))])
	}
}

func (m *model) retain(c *engine.Changes) {
	topic := fmt.Sprint("topic ", m.rand.IntN(5))
	c.Retained = append(c.Retained, engine.RetainedRecord{Topic: topic})
	delete(m.retained, topic)
}

// take dequeues one message of a session: usually the first, sometimes any.
func (m *model) take(c *engine.Changes) {
	if s, i := m.anyQueued(); s != nil {
		c.Dequeued = append(c.Dequeued, engine.QueueRecord{SessionID: s.ID, Seq: s.Queue[i].Seq})
		s.Queue = slices.Delete(s.Queue, i, i+1)
	}
}

func (m *model) release(c *engine.Changes) {
	if s, i := m.anyQueued(); s != nil {
		c.Released = append(c.Released, engine.QueueRecord{SessionID: s.ID, Seq: s.Queue[i].Seq})
		s.Queue[i].Released = true
	}
}

func (m *model) anyQueued() (*engine.StoredSession, int) {
	for i := range m.sessions {
		if s := &m.sessions[i]; len(s.Queue) > 0 && m.chance(2) {
			if m.chance(3) {
				return s, m.rand.IntN(len(s.Queue))
			}
			return s, 0
		}
	}
	return nil, 0
}

func (m *model) end(c *engine.Changes) {
	if len(m.sessions) > 3 {
		i := m.rand.IntN(len(m.sessions))
		c.EndedSessions = append(c.EndedSessions, m.sessions[i].ID)
		m.sessions = slices.Delete(m.sessions, i, i+1)
	}
}
