package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
	"signalbox/scripts/suite"
)

// TestWillWaitsForResume leaves a Will that becomes due while the engine is suspended to the
// next Resume: it is published once, after that.
func TestWillWaitsForResume(t *testing.T) {
	t.Parallel()
	now := newClock()
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.Now = now.get })
	h := keeps("c")
	h.Will = &packet.Will{Topic: "will", Payload: []byte("w"), QoS: 1, Delay: 600}
	b.Connect(h).Close()
	until(t, "the client is gone", func() bool { i, _, err := b.Client("c"); return err == nil && !i.Connected })
	admin := b.administrators().Connect(fresh("admin"))
	admin.Subscribe("will", 1)
	b.suspend()
	now.advance(20 * time.Minute)
	check(t, b.Publish(&engine.Message{Topic: "will", Payload: []byte("first")}))
	if m := admin.WantMessage(); m.Payload != "first" {
		t.Errorf("got %v", m)
	}
	b.resume()
	if m := admin.WantMessage(); m.Payload != "w" {
		t.Errorf("got %v", m)
	}
	until(t, "the Will is forgotten", func() bool { i, _, err := b.Client("c"); return err == nil && i.Will == nil })
	b.suspend()
	b.resume()
	check(t, b.Publish(&engine.Message{Topic: "will", Payload: []byte("last")}))
	if m := admin.WantMessage(); m.Payload != "last" {
		t.Errorf("got %v", m)
	}
}

// TestPacketsWhileSuspending leaves SUBSCRIBE and UNSUBSCRIBE unanswered if the outcome of their
// changes is uncertain.
func TestPacketsWhileSuspending(t *testing.T) {
	t.Parallel()
	packets := map[string][]byte{
		"SUBSCRIBE":   packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: "b"}}}),
		"UNSUBSCRIBE": packet.AppendUnsubscribe(nil, packet.V5, &packet.Unsubscribe{PacketID: 1, Filters: []string{"a"}}),
		"QoS 1":       packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}),
		"QoS 2":       packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "nobody", QoS: 2, PacketID: 1}),
		"retained":    packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "r", Payload: []byte("x"), QoS: 1, PacketID: 1, Retain: true}),
		"PUBREL":      packet.AppendAck(nil, packet.V5, packet.TypePubrel, 9, 0, ""),
	}
	for name, p := range packets {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprint(name, hangs), func(t *testing.T) {
				t.Parallel()
				var s *unsure
				b := start(t, t.TempDir(), withUnsure(&s))
				c := b.Connect(keeps("c"))
				c.Subscribe("a", 1)
				c.Publish(packet.Outgoing{Topic: "nobody", QoS: 2, PacketID: 9})
				c.WantAck(packet.TypePubrec)
				s.lose(hangs)
				c.Send(p)
				if hangs {
					until(t, "it is submitted", func() bool { return s.waiting() > 0 })
					s.lose(false)
				}
				if p := c.Want(packet.TypeDisconnect); p[2] != packet.ReasonUseAnotherServer {
					t.Errorf("DISCONNECT % x", p)
				}
				c.AwaitClose()
				b.refused(keepsV5("c"), packet.ReasonUseAnotherServer)
				b.refused(keepsV5("d"), packet.ReasonUseAnotherServer)
				b.suspend()
				s.keep()
				b.resume()
				if again := b.Connect(keeps("c")); !again.Present {
					t.Error("the session is not there")
				}
			})
		}
	}
}

func keepsV5(id string) packet.Connect {
	h := keeps(id)
	h.Version = packet.V5
	return h
}

// unsure is the real store, whose outcomes may become uncertain.
type unsure struct {
	engine.Store
	mu    sync.Mutex
	lost  bool
	hangs bool
	held  []*engine.Changes
}

func withUnsure(into **unsure) func(*engine.Config, *engine.Parts) {
	return func(_ *engine.Config, p *engine.Parts) {
		*into = &unsure{Store: p.Store}
		p.Store = *into
	}
}

func (s *unsure) Submit(c *engine.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.hangs:
		s.held = append(s.held, c)
	case s.lost:
		s.answer(c)
	default:
		s.Store.Submit(c)
	}
}

func (s *unsure) answer(c *engine.Changes) {
	if c.Done != nil {
		s.Store.Submit(&engine.Changes{Done: refusal{c, fmt.Errorf("deposed: %w", engine.ErrUncertain)}})
	}
}

func (s *unsure) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return engine.ErrUncertain
	}
	return nil
}

// lose makes changes wait, or fail with an uncertain outcome.
func (s *unsure) lose(hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.hangs = !hangs, hangs
	for _, c := range s.held {
		s.answer(c)
	}
	s.held = nil
}

// take removes and returns the waiting changes.
func (s *unsure) take() []*engine.Changes {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.held, s.hangs = nil, false
	return held
}

// settle reports the outcome of changes.
func (s *unsure) settle(changes []*engine.Changes, err error) {
	for _, c := range changes {
		s.Store.Submit(&engine.Changes{Done: refusal{c, err}})
	}
}

func (s *unsure) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.hangs = false, false
}

func (s *unsure) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// TestOldChanges reports the outcome of a retained message of an earlier leadership while
// another one of its topic is being stored, which fails.
func TestOldChanges(t *testing.T) {
	t.Parallel()
	var s *unsure
	b := start(t, t.TempDir(), withUnsure(&s))
	publish := func(payload string) []*engine.Changes {
		s.lose(true)
		b.Connect(fresh("c")).Publish(packet.Outgoing{Topic: "r", Payload: []byte(payload), QoS: 1, PacketID: 1, Retain: true})
		until(t, "it is submitted", func() bool { return s.waiting() > 0 })
		return s.take()
	}
	first := publish("1")
	b.suspend()
	b.resume()
	second := publish("2")
	s.settle(first, nil)
	s.settle(second, errDisk)
	check(t, b.Publish(&engine.Message{Topic: "end", Payload: []byte("x"), Retain: true}))
	if m, ok := b.RetainedOf("r"); ok {
		t.Errorf("retained is %v", m)
	}
}

// TestSuspendAndResume suspends and resumes the engine from several goroutines while clients and
// administrators connect and disconnect, until it closes: no call waits for ever, and nothing is
// left behind.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir())
			admins := b.administrators()
			var all sync.WaitGroup
			var turned atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			for g := range uint64(3) {
				dice := rand.New(rand.NewPCG(seed, g))
				all.Go(func() { b.turnAbout(ctx, dice, &turned) })
				all.Go(func() { b.comeAndGo(ctx, fmt.Sprint("c", g)) })
				all.Go(func() { admins.comeAndGo(ctx, fmt.Sprint("a", g)) })
			}
			all.Go(func() { b.tell(ctx) })
			until(t, "there are many turns", func() bool { return turned.Load() > 150 })
			if seed%2 == 0 {
				b.CloseEngine() // while others suspend and resume
			}
			stop()
			all.Wait()
			if seed%2 == 0 {
				return
			}
			b.resume()
			until(t, "all are gone", func() bool { return b.Counts().Connected == 0 })
			b.suspend()
			enginetest.Until(t, suite.HangLimit, fmt.Sprintf("nothing of %+v is left", b.state()), func() bool { return cmp.Equal(state{}, b.state()) })
			b.resume()
			b.Connect(fresh("last")).Subscribe("a", 0)
		})
	}
}

// turnAbout suspends and resumes, sometimes without waiting for it.
func (b *broker) turnAbout(ctx context.Context, dice *rand.Rand, turned *atomic.Int64) {
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		if dice.IntN(4) == 0 {
			cancel()
		}
		var err error
		if dice.IntN(2) == 0 {
			err = b.Suspend(one, packet.ReasonUseAnotherServer)
		} else {
			err = b.Resume(one)
		}
		cancel()
		if err == nil || errors.Is(err, context.Canceled) {
			turned.Add(1)
		}
	}
}

// comeAndGo connects with one client id and does what clients do.
func (b *broker) comeAndGo(ctx context.Context, clientID string) {
	for id := uint16(1); ctx.Err() == nil; id++ {
		conn := b.Dial()
		h := keepsV5(clientID)
		h.Will, h.ReceiveMaximum = &packet.Will{Topic: "r/" + clientID, QoS: 1}, 10
		p := packet.AppendConnect(nil, &h)
		p = packet.AppendSubscribe(p, packet.V5, &packet.Subscribe{PacketID: id, Filters: []packet.Filter{{Filter: "#", Options: 2}}})
		for qos := range byte(3) {
			p = packet.AppendPublish(p, packet.V5, &packet.Outgoing{Topic: "r/" + clientID, Payload: []byte("x"), QoS: qos, PacketID: id, Retain: id%2 == 0})
		}
		conn.Write(p)
		for range 4 {
			if _, err := conn.Read(); err != nil {
				break
			}
		}
		conn.Close()
	}
}

// tell publishes as the broker itself, and lists clients and messages.
func (b *broker) tell(ctx context.Context) {
	p := b.NewPublisher()
	for n := 0; ctx.Err() == nil; n++ {
		p.Publish(&engine.Message{Topic: fmt.Sprint("s/", n%5), QoS: byte(n % 3), Payload: []byte("x")})
		p.Flush()
		b.Publish(&engine.Message{Topic: fmt.Sprint("r/", n%5), QoS: 1, Payload: []byte("x"), Retain: true})
		b.DeleteRetained(fmt.Sprint("r/", (n+1)%5))
		b.SubscribeClient("c1", "s/+", topics.Options{QoS: 1})
		b.UnsubscribeClient("c1", "s/+")
		b.Forget(ctx, "a1")
		b.state()
	}
}
