package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// elsewhere is a store that may have another server's state when it is loaded, and records what
// is submitted from then on.
type elsewhere struct {
	*faulty
	mu       sync.Mutex
	snapshot *engine.Snapshot
	noted    []string
}

func (s *elsewhere) Load(ctx context.Context) (*engine.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshot == nil {
		return s.faulty.Load(ctx)
	}
	return s.snapshot, nil
}

func (s *elsewhere) Submit(c *engine.Changes) {
	s.mu.Lock()
	if s.snapshot != nil {
		s.note(c)
	}
	s.mu.Unlock()
	s.faulty.Submit(c)
}

// note records the sessions, messages and topics of changes.
func (s *elsewhere) note(c *engine.Changes) {
	for _, r := range c.PutSessions {
		s.noted = append(s.noted, fmt.Sprintf("put %d", r.ID))
	}
	for _, m := range c.Messages {
		s.noted = append(s.noted, fmt.Sprintf("message %d", m.ID))
	}
	for _, r := range c.Enqueued {
		s.noted = append(s.noted, fmt.Sprintf("enqueued %d %d", r.SessionID, r.Seq))
	}
	for _, r := range append(c.Released, c.Dequeued...) {
		s.noted = append(s.noted, fmt.Sprintf("done %d %d", r.SessionID, r.Seq))
	}
	for _, r := range append(c.Received, c.Forgotten...) {
		s.noted = append(s.noted, fmt.Sprintf("incoming %d", r.SessionID))
	}
	for _, r := range append(c.Subscribed, c.Unsubscribed...) {
		s.noted = append(s.noted, fmt.Sprintf("subscribed %d %s", r.SessionID, r.Filter))
	}
	for _, r := range c.Retained {
		s.noted = append(s.noted, "retained "+r.Topic)
	}
	for _, id := range c.EndedSessions {
		s.noted = append(s.noted, fmt.Sprintf("ended %d", id))
	}
}

// submitted returns what was recorded since the last call.
func (s *elsewhere) submitted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	noted := s.noted
	s.noted = nil
	return noted
}

// fillWithState fills the engine with all kinds of state, some of it without an outcome of the store.
// It returns a client that stays connected.
func fillWithState(b *broker, s *elsewhere) {
	h := keeps("gone")
	h.Will = &packet.Will{Topic: "will/delayed", Payload: []byte("w"), QoS: 1, Delay: 3600}
	gone := b.Connect(h)
	gone.Subscribe("a", 2)
	gone.Subscribe("$share/g/s", 1)
	gone.Close()
	until(b.T, "the client is gone", func() bool { i, _, err := b.Client("gone"); return err == nil && !i.Connected })
	h = keeps("here")
	h.Will = &packet.Will{Topic: "r/will", Payload: []byte("w"), QoS: 1, Retain: true}
	here := b.Connect(h)
	here.Subscribe("a", 2)
	here.Subscribe("$share/g/s", 1)
	publisher := b.Connect(keeps("publisher"))
	var whole []uint16 // packet identifiers of QoS 2
	for id := range uint16(4) {
		publisher.Publish(packet.Outgoing{Topic: "a", QoS: byte(1 + id%2), PacketID: 1 + id})
		publisher.Read()
		publisher.Publish(packet.Outgoing{Topic: "s", QoS: 1, PacketID: 10 + id})
		publisher.Read()
		for range 2 {
			if m := here.WantMessage(); m.QoS == 2 {
				whole = append(whole, m.ID)
			}
		}
	}
	publisher.Publish(packet.Outgoing{Topic: "r/old", Payload: []byte("old"), QoS: 1, PacketID: 20, Retain: true})
	publisher.WantAck(packet.TypePuback)
	s.hang()
	for _, id := range whole {
		here.Ack(packet.TypePubrec, id)
	}
	publisher.Ack(packet.TypePubrel, 2)
	for i, topic := range []string{"r/old", "r/new", "a", "s"} {
		for qos := range byte(3) {
			publisher.Publish(packet.Outgoing{Topic: topic, Payload: []byte("x"), QoS: qos, PacketID: 100 + uint16(i)*3 + uint16(qos), Retain: i < 2})
		}
	}
	publisher.Publish(packet.Outgoing{Topic: "r/old", QoS: 1, PacketID: 200, Retain: true})
	publisher.Ping() // everything published is delivered by now
	until(b.T, "all is submitted", func() bool { _, ok := b.RetainedOf("r/old"); return !ok && s.held() > 10 })
}

// state returns the visible state of an engine.
type state struct {
	Clients       []string
	Subscriptions []string
	Retained      []string
	Counts        engine.Counts
}

func (b *broker) state() (s state) {
	_, all := b.Clients(0, -1)
	for i := range all {
		s.Clients = append(s.Clients, fmt.Sprintf("%s %v %d", i.ClientID, i.Connected, i.Queue.Messages))
	}
	_, subscriptions := b.Subscriptions(0, -1, nil)
	for _, one := range subscriptions {
		s.Subscriptions = append(s.Subscriptions, one.Filter+" "+one.ClientID)
	}
	_, retained := b.Retained("", 0, -1)
	for _, m := range retained {
		s.Retained = append(s.Retained, m.Topic+" "+string(m.Payload))
	}
	c := b.Counts()
	s.Counts = engine.Counts{Subscriptions: c.Subscriptions, Shared: c.Shared, Connected: c.Connected, Sessions: c.Sessions,
		Retained: c.Retained, RetainedBytes: c.RetainedBytes, Queued: c.Queued, QueuedBytes: c.QueuedBytes}
	return s
}

// another returns a state of another server, with IDs that were used here as well.
func another() *engine.Snapshot {
	m := &engine.Message{ID: 3, Topic: "b", Payload: []byte("m"), QoS: 1}
	gone := time.Now().UnixMilli()
	record := func(id uint64, clientID string) engine.SessionRecord {
		return engine.SessionRecord{ID: id, ClientID: clientID, Version: packet.V5, ExpiryInterval: 3600, DisconnectedAt: gone}
	}
	return &engine.Snapshot{
		Sessions: []engine.StoredSession{
			{SessionRecord: record(1, "gone"), Queue: []engine.QueueRecord{{SessionID: 1, Seq: 1, Message: m, QoS: 1}, {SessionID: 1, Seq: 5, Message: m, QoS: 1}}},
			{SessionRecord: record(3, "new"), Subscriptions: []engine.SubscriptionRecord{{SessionID: 3, Filter: "b", Options: 1}}},
		},
		Retained:      []*engine.Message{{ID: 2, Topic: "r/old", Payload: []byte("theirs"), Retain: true}},
		LastMessageID: 1000, LastSessionID: 100,
	}
}

// TestResumeIsWhatIsStored resumes with the stored state, whatever was in progress when the
// engine was suspended, and whenever the store reports its outcome.
func TestResumeIsWhatIsStored(t *testing.T) {
	t.Parallel()
	want := state{
		Clients:       []string{"admin true 0", "gone false 2", "new false 0"},
		Subscriptions: []string{"# admin", "b new"},
		Retained:      []string{"r/old theirs"},
		Counts: engine.Counts{Subscriptions: 2, Connected: 1, Sessions: 3, Retained: 1, RetainedBytes: 11,
			Queued: 2, QueuedBytes: 4},
	}
	for late := range 3 { // when what is not owed fails
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			var s *elsewhere
			b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) {
				s = &elsewhere{faulty: &faulty{Store: p.Store}}
				p.Store = s
			})
			admin := b.administrators().Connect(fresh("admin"))
			fillWithState(b, s)
			admin.Subscribe("#", 0)
			for admin.Ping()[0]>>4 == packet.TypePublish { // what is retained
				admin.Want(packet.TypePingresp)
			}
			steps := []func(){b.suspend, func() {
				s.mu.Lock()
				s.snapshot = another()
				s.mu.Unlock()
				b.resume()
			}}
			for i, step := range slices.Insert(steps, late, s.fail) {
				step()
				if i == late { // it must not change anything of another server's state
					admin.Ping()
				}
			}
			s.work() // what was owed is committed
			check(t, b.Publish(&engine.Message{Topic: "end", Payload: []byte("e"), QoS: 1}))
			for {
				if m := admin.WantMessage(); m.Topic == "end" {
					break
				} else if m.Topic == "r/will" || m.Topic == "will/delayed" {
					t.Errorf("the Will %v was published", m)
				}
			}
			if d := cmp.Diff(want, b.state()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got := s.submitted(); len(got) != 0 {
				t.Errorf("submitted: %q", got)
			}
			b.servesAnew(s)
		})
	}
}

// servesAnew makes clients use the restored state. New records get new IDs.
func (b *broker) servesAnew(s *elsewhere) {
	t := b.T
	t.Helper()
	gone := b.Connect(keeps("gone"))
	if !gone.Present {
		t.Error("the session is not there")
	}
	for range 2 {
		gone.Ack(packet.TypePuback, gone.WantMessage().ID)
	}
	gone.Subscribe("c", 1)
	if got, want := s.submitted(), []string{"put 1", "done 1 1", "done 1 5", "subscribed 1 c"}; !slices.Equal(got, want) {
		t.Errorf("submitted %q, want %q", got, want)
	}
	fresh := b.Connect(keeps("here"))
	if fresh.Present {
		t.Error("a session is there that was not stored")
	}
	fresh.Publish(packet.Outgoing{Topic: "c", QoS: 1, PacketID: 1})
	fresh.WantAck(packet.TypePuback)
	var session, message int
	got := strings.Join(s.submitted(), ", ")
	_, err := fmt.Sscanf(got, "put %d, message %d, enqueued 1 6", &session, &message)
	if err != nil || session <= 100 || message <= 1000 {
		t.Errorf("submitted %s", got)
	}
}

// BenchmarkTurn resumes and suspends an engine with 50,000 sessions that are away,
// each with a subscription and ten messages, and as many retained messages.
func BenchmarkTurn(b *testing.B) {
	const sessions = 50_000
	snapshot := &engine.Snapshot{LastMessageID: 10, LastSessionID: sessions}
	m := &engine.Message{ID: 1, Topic: "a", Payload: []byte("m"), QoS: 1}
	for id := range uint64(sessions) {
		s := engine.StoredSession{SessionRecord: engine.SessionRecord{
			ID: id + 1, ClientID: fmt.Sprint("client", id), Version: packet.V5, ExpiryInterval: engine.NeverExpires, DisconnectedAt: 1,
		}}
		s.Subscriptions = []engine.SubscriptionRecord{{SessionID: id + 1, Filter: fmt.Sprint("to/", id, "/+"), Options: 1}}
		for seq := range uint64(10) {
			s.Queue = append(s.Queue, engine.QueueRecord{SessionID: id + 1, Seq: seq + 1, Message: m, QoS: 1})
		}
		snapshot.Sessions = append(snapshot.Sessions, s)
		snapshot.Retained = append(snapshot.Retained, &engine.Message{Topic: fmt.Sprint("r/", id), Payload: []byte("m")})
	}
	e := prepare(b, b.TempDir(), func(_ *engine.Config, p *engine.Parts) {
		p.Store = &elsewhere{faulty: &faulty{Store: p.Store}, snapshot: snapshot}
	})
	var resuming time.Duration
	for b.Loop() {
		began := time.Now()
		e.resume()
		resuming += time.Since(began)
		e.suspend()
	}
	b.ReportMetric(float64(resuming.Milliseconds())/float64(b.N), "ms/resume")
}
