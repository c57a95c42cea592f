package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// agreement is a log of changes of retained messages that several brokers share. bring
// delivers the next one.
type agreement struct {
	mu       sync.Mutex
	proposed []*engine.Changes
	refusing bool
	brokers  []*broker
}

// agreeing is a store that appends changes of retained messages to the log first.
type agreeing struct {
	engine.Store
	log *agreement
}

func (s agreeing) Submit(c *engine.Changes) {
	if len(c.Retained) == 0 || c.Owed {
		s.Store.Submit(c)
		return
	}
	if len(c.Enqueued)+len(c.Received) > 0 {
		panic("what is agreed upon is not submitted by itself")
	}
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.proposed = append(s.log.proposed, c)
}

// join starts a broker that shares the log.
func (l *agreement) join(t *testing.T) *broker {
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Store = agreeing{p.Store, l} })
	b.AgreeRetained(true)
	b.Identify(uint16(len(l.brokers) + 1))
	l.brokers = append(l.brokers, b)
	return b
}

// bring delivers the next change to all brokers, or refuses it. It returns false if there is
// none.
func (l *agreement) bring(t *testing.T) bool {
	l.mu.Lock()
	if len(l.proposed) == 0 {
		l.mu.Unlock()
		return false
	}
	c, refusing := l.proposed[0], l.refusing
	l.proposed = l.proposed[1:]
	l.mu.Unlock()
	if refusing {
		c.Done.Committed(c, errors.New("no leader"))
		return true
	}
	for _, b := range l.brokers {
		check(t, b.ApplyRetained(decoded(c.Retained), b.keep))
	}
	c.Done.Committed(c, nil)
	return true
}

// decoded returns copies of records, as a log delivers them.
func decoded(records []engine.RetainedRecord) (all []engine.RetainedRecord) {
	for _, r := range records {
		if m := r.Message; m != nil {
			r.Message = &engine.Message{
				ID: m.ID, Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: true,
				CreatedAt: m.CreatedAt, Publisher: m.Publisher, Username: m.Username,
			}
		}
		all = append(all, r)
	}
	return all
}

// keep stores changes that the log has delivered.
func (b *broker) keep(c *engine.Changes) error {
	done := make(outcome, 1)
	c.Done = done
	b.Store.(agreeing).Store.Submit(c) //nolint:forcetypeassert // join made it
	return <-done
}

type outcome chan error

func (o outcome) Committed(_ *engine.Changes, err error) { o <- err }

// shown returns the retained messages, by topic.
func (b *broker) shown() map[string]string {
	all := map[string]string{}
	_, list := b.Retained("", 0, -1)
	for _, m := range list {
		all[m.Topic] = string(m.Payload)
	}
	return all
}

// TestAgreed shows a retained message at once where it is published and where it is forwarded
// to, and shows the stored one again if the log refuses it.
func TestAgreed(t *testing.T) {
	t.Parallel()
	log := &agreement{}
	a, b := log.join(t), log.join(t)
	reader, c := a.Connect(keeps("reader")), a.Connect(keeps("c"))
	reader.Subscribe("a", 1)
	set := func(payload string, qos byte) {
		c.Publish(packet.Outgoing{Topic: "a", Payload: []byte(payload), QoS: qos, PacketID: 7, Retain: true})
	}
	set("one", 2)
	c.Ping() // it is not acknowledged yet
	if diff := cmp.Diff(map[string]string{"a": "one"}, a.shown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	log.bring(t)
	c.WantAck(packet.TypePubrec)
	reader.WantMessage()
	until(t, "the other node has it", func() bool { return b.shown()["a"] == "one" })
	log.refusing = true
	c.Ack(packet.TypePubrel, 7)
	c.WantAck(packet.TypePubcomp)
	set("two", 1)
	if m := reader.WantMessage(); m.Payload != "two" { // delivered to others meanwhile
		t.Errorf("got %v", m)
	}
	set("", 1)
	c.Ping()
	for range 2 {
		if !log.bring(t) {
			t.Fatal("nothing was proposed")
		}
		if a := c.WantAck(packet.TypePuback); a.Reason != packet.ReasonQuotaExceeded {
			t.Errorf("got %+v", a)
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "one"}, a.shown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	log.refusing = false
	deleted := make(chan error, 1)
	go func() {
		_, err := b.DeleteRetained("a")
		deleted <- err
	}()
	until(t, "the deletion is brought", func() bool { return log.bring(t) })
	check(t, <-deleted)
	if n := len(a.shown()); n != 0 {
		t.Errorf("%d topics are left", n)
	}
}

// TestAgreedByAll publishes retained messages at all nodes at once, forwards them in any
// order, and refuses some. In the end all nodes have the same, in memory and in the store.
func TestAgreedByAll(t *testing.T) {
	t.Parallel()
	log := &agreement{}
	brokers := []*broker{log.join(t), log.join(t), log.join(t)}
	links := &forwardLink{make(chan forwarded, 10_000)}
	for i, b := range brokers {
		for range len(brokers) - 1 {
			b.AddPeer(fmt.Sprint(i), links)
		}
	}
	publishing, applying := make(chan struct{}), make(chan struct{})
	var publishers sync.WaitGroup
	for i, b := range brokers {
		publishers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 2)) //nolint:gosec // a test's
			p := b.NewPublisher()
			for n := range 500 {
				m := &engine.Message{Topic: fmt.Sprint(random.IntN(5)), Payload: fmt.Appendf(nil, "%d/%d", i, n), Retain: true, QoS: 1, CreatedAt: int64(n)}
				if random.IntN(4) == 0 {
					m.Payload = nil
				}
				p.Publish(m)
			}
		})
	}
	go func() { // forwarded messages, to any node
		defer close(applying)
		random := rand.New(rand.NewPCG(9, 2)) //nolint:gosec // a test's
		var in []*engine.Receiver
		for _, b := range brokers {
			in = append(in, b.NewReceiver())
		}
		for got := range links.taken {
			to := random.IntN(len(in))
			m := decoded([]engine.RetainedRecord{{Message: got.message}})[0].Message
			in[to].Receive(m, engine.Forward{Direct: true}, random.IntN(5) == 0)
			in[to].Flush()
			if got.Receipt != nil {
				got.Receipt.Committed(nil)
			}
		}
	}()
	go func() {
		defer close(publishing)
		publishers.Wait()
	}()
	for done := false; !done; {
		select {
		case <-publishing:
			done = true
		default:
			log.bring(t)
		}
	}
	close(links.taken)
	<-applying
	for log.bring(t) {
	}
	want := brokers[0]
	want.DropUnconfirmed()
	for _, b := range brokers[1:] {
		b.DropUnconfirmed()
		if diff := cmp.Diff(want.shown(), b.shown()); diff != "" {
			t.Errorf("two nodes differ:\n%s", diff)
		}
	}
	for _, b := range brokers {
		want := b.shown()
		b.close()
		if diff := cmp.Diff(want, start(t, b.dir).shown()); diff != "" {
			t.Errorf("the store has something else:\n%s", diff)
		}
	}
}

// TestReplaceRetained shows what is stored, except for the status of the broker and pending
// changes.
func TestReplaceRetained(t *testing.T) {
	t.Parallel()
	log := &agreement{}
	b := log.join(t)
	check(t, b.Publish(&engine.Message{Topic: "$SYS/broker/version", Payload: []byte("1"), Retain: true}))
	b.NewPublisher().Publish(&engine.Message{Topic: "new", Payload: []byte("here"), Retain: true})
	check(t, b.ApplyRetained([]engine.RetainedRecord{
		{Topic: "gone", Message: &engine.Message{Topic: "gone", Payload: []byte("x"), Retain: true}},
		{Topic: "set", Message: &engine.Message{Topic: "set", Payload: []byte("x"), Retain: true}},
	}, b.keep))
	b.ReplaceRetained([]*engine.Message{
		{ID: 100, Topic: "set", Payload: []byte("y"), Retain: true},
		{ID: 101, Topic: "new", Payload: []byte("there"), Retain: true},
	})
	want := map[string]string{"$SYS/broker/version": "1", "set": "y", "new": "here"}
	if diff := cmp.Diff(want, b.shown()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	log.refusing = true
	log.bring(t)
	want["new"] = "there"
	if diff := cmp.Diff(want, b.shown()); diff != "" {
		t.Errorf("after the change was refused (-want +got):\n%s", diff)
	}
}

// TestDeliveredBefore shows what the log has delivered last, though a message that it has
// delivered before is forwarded only now.
func TestDeliveredBefore(t *testing.T) {
	t.Parallel()
	b := (&agreement{}).join(t)
	receiver := b.NewReceiver()
	message := func(payload string) *engine.Message {
		return &engine.Message{Topic: "a", Payload: []byte(payload), QoS: 1, Retain: true, CreatedAt: 1, Publisher: "p"}
	}
	shows := func(want string) {
		t.Helper()
		if m, _ := b.RetainedOf("a"); m == nil || string(m.Payload) != want {
			t.Errorf("retained %v, want %s", m, want)
		}
	}
	for _, payload := range []string{"1", "2"} {
		check(t, b.ApplyRetained([]engine.RetainedRecord{{Topic: "a", Message: message(payload)}}, b.keep))
	}
	receiver.Receive(message("1"), engine.Forward{Direct: true}, false)
	shows("2")
	receiver.Receive(message("3"), engine.Forward{Direct: true}, false)
	shows("3")
	for i := range 5000 { // more than the deduplication cache has
		check(t, b.ApplyRetained([]engine.RetainedRecord{{Topic: "b", Message: message(fmt.Sprint(i))}}, func(*engine.Changes) error { return nil }))
	}
	receiver.Receive(message("4"), engine.Forward{Direct: true}, false)
	shows("4")
}
