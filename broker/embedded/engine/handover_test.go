package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// moveSession moves a client's session from one engine to another, as the sessions package
// does.
func moveSession(t *testing.T, from, to *broker, id string, between func()) {
	t.Helper()
	i, _, err := from.Client(id)
	check(t, err)
	h, err := from.Yield(t.Context(), engine.Claim{ClientID: id, Username: i.Username, Anonymous: i.Anonymous, Timestamp: 1 << 62})
	check(t, err)
	state, next := h.State()
	a, err := to.Adopt(&state, next, h.Ownership().Timestamp)
	check(t, err)
	if between != nil {
		between()
	}
	state.Incoming = h.Freeze(t.Context())
	var upTo uint64
	for more := true; more; {
		var part []engine.QueueRecord
		part, more, err = h.Queue(upTo, 300)
		check(t, err)
		if len(part) > 0 {
			upTo = part[len(part)-1].Seq
		}
		state.Queue = append(state.Queue, copied(part)...)
	}
	check(t, a.Fill(&state))
	if !h.End(upTo) {
		t.Fatal("something came meanwhile")
	}
	a.Activate()
}

// copied returns a copy, as if it was sent over a network.
func copied(part []engine.QueueRecord) []engine.QueueRecord {
	part = append([]engine.QueueRecord{}, part...)
	for i := range part {
		m := part[i].Message
		part[i].Message = &engine.Message{Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, Publisher: m.Publisher, Stamp: m.Stamp}
	}
	return part
}

// TestHandover moves a session with messages in every state: exchanges continue where they
// were, and messages that are published meanwhile are queued behind.
func TestHandover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := start(t, t.TempDir()), start(t, dir)
	c := from.Connect(keeps("c"))
	c.Subscribe("a/#", 2)
	p := from.Connect(fresh("p"))
	for i, qos := range []byte{1, 2, 2, 1} {
		p.Publish(packet.Outgoing{Topic: "a/b", QoS: qos, PacketID: uint16(i + 1), Payload: fmt.Append(nil, i)})
	}
	sent := []message{c.WantMessage(), c.WantMessage(), c.WantMessage(), c.WantMessage()}
	c.Ack(packet.TypePubrec, sent[1].ID)
	c.WantAck(packet.TypePubrel)
	c.Publish(packet.Outgoing{Topic: "x", QoS: 2, PacketID: 7})
	c.WantAck(packet.TypePubrec)
	c.Close()
	until(t, "the client is gone", func() bool { i, _, _ := from.Client("c"); return !i.Connected })
	check(t, from.Publish(&engine.Message{Topic: "a/c", QoS: 1, Payload: []byte("4")}))
	moveSession(t, from, to, "c", func() {
		check(t, to.Publish(&engine.Message{Topic: "a/d", QoS: 1, Payload: []byte("5")}))
		check(t, from.Publish(&engine.Message{Topic: "a/d", QoS: 1, Payload: []byte("6")}))
	})
	if _, _, err := from.Client("c"); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("the session is still where it was: %v", err)
	}
	to.close()
	to = start(t, dir)

	again := to.Connect(keeps("c"))
	if !again.Present {
		t.Fatal("the session is not there")
	}
	want := []message{
		{Topic: "a/b", Payload: "0", QoS: 1, ID: sent[0].ID, Dup: true},
		{},
		{Topic: "a/b", Payload: "2", QoS: 2, ID: sent[2].ID, Dup: true},
		{Topic: "a/b", Payload: "3", QoS: 1, ID: sent[3].ID, Dup: true},
		{Topic: "a/c", Payload: "4", QoS: 1, ID: sent[3].ID + 1},
		{Topic: "a/d", Payload: "6", QoS: 1, ID: sent[3].ID + 2},
	}
	for i, w := range want {
		if i != 1 {
			if got := again.WantMessage(); got != w {
				t.Errorf("message %d is %v, want %v", i, got, w)
			}
		} else if a := again.WantAck(packet.TypePubrel); a.PacketID != sent[1].ID {
			t.Errorf("PUBREL for %d, want %d", a.PacketID, sent[1].ID)
		}
	}
	last := again.WantMessage()
	if last.Payload != "5" || last.Dup {
		t.Errorf("the message that came meanwhile is %v", last)
	}
	again.Ack(packet.TypePubrec, want[2].ID)
	again.WantAck(packet.TypePubrel)
	for _, id := range []uint16{sent[1].ID, want[2].ID} {
		again.Ack(packet.TypePubcomp, id)
	}
	for _, i := range []int{0, 3, 4, 5} {
		again.Ack(packet.TypePuback, want[i].ID)
	}
	again.Ack(packet.TypePuback, last.ID)
	until(t, "the queue is empty", func() bool { return to.queue("c") == 0 })
	again.Publish(packet.Outgoing{Topic: "a/x", QoS: 2, PacketID: 7, Dup: true})
	again.WantAck(packet.TypePubrec)
	if n := to.queue("c"); n != 0 {
		t.Errorf("%d messages wait: a repeated message was delivered again", n)
	}
}

// TestHandoverOverlap leaves out the messages that reached both engines, and nothing else.
func TestHandoverOverlap(t *testing.T) {
	t.Parallel()
	from, to := start(t, t.TempDir()), start(t, t.TempDir())
	c := from.Connect(keeps("c"))
	c.Subscribe("a", 1)
	c.Disconnect()
	say := func(b *broker, n uint64) {
		check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: fmt.Append(nil, n), Stamp: n}))
	}
	for n := range uint64(40) {
		say(from, n+1)
	}
	moveSession(t, from, to, "c", func() {
		for n := range uint64(20) {
			say(to, n+31)
		}
	})
	c = to.Connect(keeps("c"))
	for n := range 50 {
		m := c.WantMessage()
		if m.Payload != fmt.Sprint(n+1) {
			t.Fatalf("message %d is %v", n+1, m)
		}
		c.Ack(packet.TypePuback, m.ID)
	}
	until(t, "the queue is empty", func() bool { return to.queue("c") == 0 })
}

// endingStore calls a function while the end of a session is submitted.
type endingStore struct {
	engine.Store
	ending func()
}

func (s *endingStore) Submit(c *engine.Changes) {
	if len(c.EndedSessions) > 0 {
		s.ending()
	}
	s.Store.Submit(c)
}

// TestUnsentOfEndedSession counts nothing of a session that has ended, even before its queue is
// released.
func TestUnsentOfEndedSession(t *testing.T) {
	t.Parallel()
	s := &endingStore{}
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { s.Store, p.Store = p.Store, s })
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	c.Disconnect()
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1}))
	h, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Timestamp: 1 << 62})
	check(t, err)
	if n := h.Unsent(); n != 1 {
		t.Errorf("%d messages are unsent, want 1", n)
	}
	while := -1
	s.ending = func() { while = h.Unsent() }
	if !h.End(1<<62) || while != 0 {
		t.Errorf("while the session ended %d messages were unsent, want 0", while)
	}
}

// TestYield ends connections that are earlier than the claim, but not later ones or those of
// another user.
func TestYield(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	if _, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Timestamp: 1}); !errors.Is(err, engine.ErrLater) {
		t.Errorf("an earlier claim gives %v", err)
	}
	if _, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Username: "other", Timestamp: 1 << 62}); !errors.Is(err, engine.ErrForeign) {
		t.Errorf("another user's claim gives %v", err)
	}
	h, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Timestamp: 1 << 62})
	check(t, err)
	if p := c.Want(packet.TypeDisconnect); p[2] != packet.ReasonSessionTakenOver {
		t.Errorf("DISCONNECT is % x", p)
	}
	h.Keep()
	c = b.Connect(keeps("c"))
	if !c.Present {
		t.Error("a session that was kept is gone")
	}
	if _, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", CleanStart: true, Timestamp: 1 << 62}); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("a claim with Clean Start gives %v", err)
	}
	if _, err := b.Ownership("c"); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("the session is still there: %v", err)
	}
}

// TestKeep leaves a session that was frozen as it was.
func TestKeep(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	c.Disconnect()
	h, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Timestamp: 1 << 62})
	check(t, err)
	h.Freeze(t.Context())
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("lost")}))
	h.Keep()
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("kept")}))
	if h.End(0) {
		t.Error("a session with more than was taken over has ended")
	}
	c = b.Connect(keeps("c"))
	if m := c.WantMessage(); m.Payload != "kept" {
		t.Errorf("got %v", m)
	}
}

// TestEndOfPart deletes what another engine has of a session, if more was queued meanwhile: its
// messages, and the packet identifiers that the client has used.
func TestEndOfPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	c.Publish(packet.Outgoing{Topic: "x", QoS: 2, PacketID: 7})
	c.WantAck(packet.TypePubrec)
	c.Disconnect()
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("moved")}))
	h, err := b.Yield(t.Context(), engine.Claim{ClientID: "c", Timestamp: 1 << 62})
	check(t, err)
	part, _, err := h.Queue(0, 1000)
	check(t, err)
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("late")}))
	if h.End(part[len(part)-1].Seq) {
		t.Fatal("a session with more than was taken over has ended")
	}
	if n := b.queue("c"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	h.Keep()
	b.close()
	b = start(t, dir)
	c = b.Connect(keeps("c"))
	if m := c.WantMessage(); m.Payload != "late" {
		t.Errorf("got %v", m)
	}
	c.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Payload: []byte("another")})
	c.WantAck(packet.TypePubrec)
	if m := c.WantMessage(); m.Payload != "another" {
		t.Errorf("got %v", m)
	}
}

// TestMergeOfCopy merges a session with an old copy of it: what was sent is repeated with DUP
// [MQTT-3.3.1-1], and of what the client has, PUBREL only [MQTT-4.3.3-6].
func TestMergeOfCopy(t *testing.T) {
	t.Parallel()
	for name, stamp := range map[string]uint64{"published here": 0, "forwarded": 1} {
		for _, elsewhere := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, two parts %t", name, elsewhere), func(t *testing.T) {
				t.Parallel()
				testMergeOfCopy(t, stamp, elsewhere)
			})
		}
	}
}

func testMergeOfCopy(t *testing.T, stamp uint64, elsewhere bool) {
	dirs := []string{t.TempDir(), t.TempDir()}
	b := start(t, dirs[0])
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	c.Disconnect()
	for n := range uint64(4) {
		check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, n), Stamp: stamp * (n + 1)}))
	}
	old, timestamp := partOf(t, b, "c")
	state := old
	state.Queue = slices.Clone(old.Queue[1:]) // the first one is complete
	state.Queue[0].Released = true
	state.SentSeq = state.Queue[1].Seq
	parts := []*engine.StoredSession{&state}
	dir := dirs[0]
	if elsewhere {
		old.SentSeq = old.Queue[1].Seq
		parts, dir = []*engine.StoredSession{&old, &state}, dirs[1]
		b = start(t, dir)
	}
	merge(t, b, timestamp, parts...)
	b.close()
	b = start(t, dir)
	c = b.Connect(keeps("c"))
	if m := c.WantMessage(); m.Payload != "0" {
		t.Errorf("got %v", m)
	}
	if r := c.WantAck(packet.TypePubrel); r.PacketID != uint16(state.Queue[0].Seq) {
		t.Errorf("PUBREL for %d, want %d", r.PacketID, state.Queue[0].Seq)
	}
	for n, r := range state.Queue[1:] {
		want := message{Topic: "a", Payload: fmt.Sprint(n + 2), QoS: 2, ID: uint16(r.Seq), Dup: n == 0}
		if m := c.WantMessage(); m != want {
			t.Errorf("got %v, want %v", m, want)
		}
	}
}

// TestMergeByOtherNumbers merges a session with a part that has the same messages by other packet identifiers, and in other
// states: the client gets each message once, and all that it has begun is ended.
func TestMergeByOtherNumbers(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarts), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := start(t, dir)
			c := b.Connect(keeps("c"))
			c.Subscribe("a", 2)
			own := map[string]uint16{}
			publish := func(payload string) {
				check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte(payload), Stamp: uint64(len(own) + 1)}))
				own[payload] = uint16(len(own) + 1)
			}
			for _, payload := range []string{"sent, sent", "sent, released", "released, sent"} {
				publish(payload)
				if m := c.WantMessage(); m.Payload != payload || m.ID != own[payload] {
					t.Fatalf("got %+v", m)
				}
			}
			c.Send(packet.AppendAck(nil, packet.V5, packet.TypePubrec, own["released, sent"], 0, ""))
			c.WantAck(packet.TypePubrel)
			c.Disconnect()
			for _, payload := range []string{"unsent, sent", "unsent, released", "unsent, unsent"} {
				publish(payload)
			}
			part, timestamp := partOf(t, b, "c")
			queue := part.Queue
			part.Queue = nil
			for _, i := range []int{3, 4, 0, 1, 2, 5} {
				r := queue[i]
				r.Seq, r.Released = uint64(1001+len(part.Queue)), i == 4 || i == 1
				part.Queue = append(part.Queue, r)
			}
			part.SentSeq = 1005
			merge(t, b, timestamp, &part)
			if restarts {
				b.close()
				b = start(t, dir)
			}
			c = b.Connect(keeps("c"))
			wantMessage := func(payload string, id uint16, dup bool) {
				t.Helper()
				if m, want := c.WantMessage(), (message{Topic: "a", Payload: payload, QoS: 2, ID: id, Dup: dup}); m != want {
					t.Errorf("got %+v, want %+v", m, want)
				}
			}
			wantRelease := func(ids ...uint16) {
				t.Helper()
				for _, id := range ids {
					if r := c.WantAck(packet.TypePubrel); r.PacketID != id {
						t.Errorf("got PUBREL for %d, want %d", r.PacketID, id)
					}
				}
			}
			wantMessage("sent, sent", own["sent, sent"], true)
			wantRelease(own["sent, released"], own["released, sent"])
			wantMessage("unsent, unsent", own["unsent, unsent"], restarts) // the store has the last number that was sent only
			wantMessage("unsent, sent", 1001, true)
			wantRelease(1002, 1003, 1004, 1005)
			wantLast(t, b, c)
		})
	}
}

// partOf returns a part of a client's session that is at another node, with what is queued here.
func partOf(t *testing.T, b *broker, id string) (part engine.StoredSession, timestamp uint64) {
	t.Helper()
	h, err := b.Yield(t.Context(), engine.Claim{ClientID: id, Timestamp: 1 << 62})
	check(t, err)
	part, _ = h.State()
	queue, _, err := h.Queue(0, 1000)
	check(t, err)
	part.Queue, timestamp = copied(queue), h.Ownership().Timestamp
	h.Keep()
	return part, timestamp
}

// merge merges a client's session with parts of it.
func merge(t *testing.T, b *broker, timestamp uint64, parts ...*engine.StoredSession) {
	t.Helper()
	a, err := b.Adopt(parts[0], 2000, timestamp)
	check(t, err)
	check(t, a.Fill(parts...))
	a.Activate()
	a.Close()
}

// wantLast checks that a client gets nothing before a message that is published now.
func wantLast(t *testing.T, b *broker, c *client) {
	t.Helper()
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("last")}))
	if m := c.WantMessage(); m.Payload != "last" {
		t.Errorf("got %+v", m)
	}
}

// TestMergeOfThree merges a session with two parts, of which one has a message by the number here.
func TestMergeOfThree(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	c.Disconnect()
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("x"), Stamp: 1}))
	same, timestamp := partOf(t, b, "c")
	other := same
	other.Queue = copied(same.Queue)
	other.Queue[0].Seq, other.Queue[0].Released = 1001, true
	same.Queue[0].Released, same.SentSeq = true, same.Queue[0].Seq
	merge(t, b, timestamp, &other, &same)
	c = b.Connect(keeps("c"))
	for _, want := range []uint16{1, 1001} {
		if r := c.WantAck(packet.TypePubrel); r.PacketID != want {
			t.Errorf("got PUBREL for %d, want %d", r.PacketID, want)
		}
	}
	wantLast(t, b, c)
}

// TestMergeOfOtherQoS merges a session that was sent a message at QoS 1 with a part where it was sent and released at QoS 2,
// by another number, or by that of another message here.
func TestMergeOfOtherQoS(t *testing.T) {
	t.Parallel()
	for _, number := range []uint64{1001, 2} {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir())
			c := b.Connect(keeps("c"))
			c.Subscribe("a", 1)
			for n := range uint64(2) {
				check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, n), Stamp: n + 1}))
				c.WantMessage()
			}
			c.Disconnect()
			part, timestamp := partOf(t, b, "c")
			part.Queue = part.Queue[:1]
			part.Queue[0].Seq, part.Queue[0].QoS, part.Queue[0].Released = number, 2, true
			merge(t, b, timestamp, &part)
			c = b.Connect(keeps("c"))
			for n := range 2 {
				if m, want := c.WantMessage(), (message{Topic: "a", Payload: fmt.Sprint(n), QoS: 1, ID: uint16(n + 1), Dup: true}); m != want {
					t.Errorf("got %+v, want %+v", m, want)
				}
			}
			if number > 2 {
				if r := c.WantAck(packet.TypePubrel); r.PacketID != uint16(number) {
					t.Errorf("got PUBREL for %d, want %d", r.PacketID, number)
				}
			}
			wantLast(t, b, c)
		})
	}
}

// TestMergeOfOccupiedNumber merges a session with a part that has sent a message by the number that another one has here.
func TestMergeOfOccupiedNumber(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	c.Disconnect()
	for n := range uint64(3) {
		check(t, b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, n), Stamp: n + 1}))
	}
	part, timestamp := partOf(t, b, "c")
	part.Queue = part.Queue[1:2]
	part.Queue[0].Seq, part.SentSeq = 1, 1
	merge(t, b, timestamp, &part)
	c = b.Connect(keeps("c"))
	for n := range 3 {
		if m := c.WantMessage(); m.Payload != fmt.Sprint(n) {
			t.Errorf("got %+v, want the message %d", m, n)
		}
	}
	wantLast(t, b, c)
}

// slowStore keeps what is queued back while it is slow.
type slowStore struct {
	engine.Store
	mu   sync.Mutex // guards what follows
	slow bool
	kept []*engine.Changes
}

func (s *slowStore) Submit(c *engine.Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow && len(c.Enqueued) > 0 {
		s.kept = append(s.kept, c)
		return
	}
	s.Store.Submit(c)
}

// set begins or ends that the store is slow. It returns how much it keeps back.
func (s *slowStore) set(slow bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = slow
	return len(s.kept)
}

// TestMergeBeforeStored merges a session while a message is being stored that another part has sent: it stays here, and the
// other identifier is released.
func TestMergeBeforeStored(t *testing.T) {
	t.Parallel()
	dir, slow := t.TempDir(), &slowStore{}
	b := start(t, dir, func(_ *engine.Config, p *engine.Parts) { slow.Store = p.Store; p.Store = slow })
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	c.Disconnect()
	slow.set(true)
	published := make(chan error, 1)
	go func() {
		published <- b.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("x"), Stamp: 1})
	}()
	until(t, "the message is queued", func() bool { return slow.set(true) > 0 })
	part, timestamp := partOf(t, b, "c")
	part.Queue[0].Seq, part.SentSeq = 1001, 1001
	slow.set(false)
	merge(t, b, timestamp, &part)
	for _, c := range slow.kept {
		slow.Store.Submit(c)
	}
	check(t, <-published)
	b.close()
	b = start(t, dir)
	c = b.Connect(keeps("c"))
	if m, want := c.WantMessage(), (message{Topic: "a", Payload: "x", QoS: 2, ID: 1, Dup: true}); m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
	if r := c.WantAck(packet.TypePubrel); r.PacketID != 1001 {
		t.Errorf("got PUBREL for %d", r.PacketID)
	}
	wantLast(t, b, c)
}

// TestMergeKeepsLaterConnect merges sessions whose clients connected at different times: the
// later CONNECT decides from then on which part has the valid packet identifiers of the client.
func TestMergeKeepsLaterConnect(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]bool{"the other is later": true, "this is later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir())
			b.Connect(keeps("c")).Disconnect()
			here, err := b.Ownership("c")
			check(t, err)
			state, want := engine.StoredSession{SessionRecord: engine.SessionRecord{ClientID: "c", ExpiryInterval: 60, CreatedAt: 1, ConnectedAt: 1}}, here.Timestamp
			other := want - 1
			if later {
				other, want = want+1, want+1
			}
			a, err := b.Adopt(&state, 1, other)
			check(t, err)
			check(t, a.Fill(&state))
			a.Activate()
			a.Close()
			merged, err := b.Ownership("c")
			check(t, err)
			if merged.Timestamp != want {
				t.Errorf("the merged session has the timestamp %d, want %d", merged.Timestamp, want)
			}
		})
	}
}

// TestAppend queues messages of another engine for a connected client.
func TestAppend(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("0"), Stamp: 1}))
	var queue []engine.QueueRecord
	for n := range uint64(3) {
		m := &engine.Message{Topic: "a", QoS: 1, Payload: fmt.Append(nil, n), Stamp: n + 1}
		queue = append(queue, engine.QueueRecord{Seq: n + 1, Message: m, QoS: 1})
	}
	check(t, b.Append("c", queue))
	for n := range 3 {
		if m := c.WantMessage(); m.Payload != fmt.Sprint(n) {
			t.Errorf("got %v, want %d", m, n)
		}
	}
	if err := b.Append("nobody", queue); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("for nobody it gives %v", err)
	}
}

// TestAppendTwice appends messages to the queue of a connected client that also come over a link, one of them
// before and one after, at QoS 2. The client gets each once.
func TestAppendTwice(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 2)
	record := func(n uint64) engine.QueueRecord {
		return engine.QueueRecord{Seq: n, QoS: 2, Message: &engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, n), Stamp: n}}
	}
	direct := func(n uint64) { check(t, b.Publish(record(n).Message)) }
	receive := func(want string) {
		t.Helper()
		m := c.WantMessage()
		if m.Payload != want {
			t.Fatalf("got %v, want %s", m, want)
		}
		c.Ack(packet.TypePubrec, m.ID)
		c.WantAck(packet.TypePubrel)
		c.Ack(packet.TypePubcomp, m.ID)
	}
	direct(1)
	receive("1")
	done := b.WatchDuplicates("c")
	direct(2)
	receive("2")
	check(t, b.Append("c", []engine.QueueRecord{record(2), record(3)}))
	receive("3")
	direct(3)
	direct(4)
	receive("4")
	done()
	direct(3)
	receive("3")
}

// TestInherit has a session drop what it has received elsewhere, and not what it inherits.
func TestInherit(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	a, err := b.Adopt(&engine.StoredSession{SessionRecord: engine.SessionRecord{ClientID: "c", ExpiryInterval: 60, CreatedAt: 1}}, 1, 1)
	check(t, err)
	a.Received([]uint64{7, 8})
	queue := func(stamp uint64) []engine.QueueRecord {
		return []engine.QueueRecord{{QoS: 1, Message: &engine.Message{Topic: "a", QoS: 1, Stamp: stamp}}}
	}
	check(t, b.Append("c", queue(7)))
	if n := b.queue("c"); n != 0 {
		t.Errorf("%d messages that the session has received are queued again", n)
	}
	check(t, b.Inherit("c", queue(8)))
	if n := b.queue("c"); n != 1 {
		t.Errorf("%d inherited messages are queued, want 1", n)
	}
	a.Close()
}

// TestAdoptOnFullDisk leaves nothing behind if the session cannot be stored.
func TestAdoptOnFullDisk(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	state := &engine.StoredSession{SessionRecord: engine.SessionRecord{ClientID: "c", ExpiryInterval: 60, CreatedAt: 1}}
	disk.fail()
	if _, err := b.Adopt(state, 1, 1); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	if total, _ := b.Clients(0, -1); total != 0 {
		t.Errorf("%d sessions", total)
	}
	disk.work()
	a, err := b.Adopt(state, 1, 1)
	check(t, err)
	if b.ReceivedDirectly("c") != nil {
		t.Error("it is known what the session has received, although the other engine was not asked")
	}
	disk.fail()
	state.Queue = []engine.QueueRecord{{Seq: 1, QoS: 1, Message: &engine.Message{Topic: "a", QoS: 1}}}
	if err := a.Fill(state); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	disk.work()
	check(t, a.Fill(state))
	a.Activate()
	if n := b.queue("c"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}

// claiming counts claims, and refuses some.
type claiming struct {
	mu      sync.Mutex
	refuse  error
	claimed []engine.Claim
	settled int
}

func (c *claiming) Claim(_ context.Context, claim engine.Claim) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed = append(c.claimed, claim)
	return c.settle, c.refuse
}

func (c *claiming) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled++
}

func (c *claiming) refuseFromNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = engine.ErrLater
}

// TestClaimsHook claims the session of every client with a client id of its own, in the order
// of their CONNECTs, and refuses those that Claim refuses.
func TestClaimsHook(t *testing.T) {
	t.Parallel()
	b, claims := start(t, t.TempDir()), &claiming{}
	b.SetClaims(claims)
	b.Connect(keeps("c")).Disconnect()
	b.ObserveTimestamp(1 << 60)
	b.Connect(packet.Connect{ClientID: "d", CleanStart: true, Username: "u", HasUsername: true}).Disconnect()
	b.Connect(fresh("")).Disconnect()
	claims.refuseFromNow()
	c := b.Dial()
	c.Send(packet.AppendConnect(nil, &packet.Connect{Version: packet.V5, ClientID: "c"}))
	if p := c.Want(packet.TypeConnack); p[3] != packet.ReasonServerUnavailable {
		t.Errorf("CONNACK is % x", p)
	}
	b.SetClaims(nil)
	b.Connect(fresh("c")).Disconnect()
	b.CloseEngine()
	if len(claims.claimed) != 3 || claims.settled != 2 {
		t.Fatalf("%d claims, %d settled", len(claims.claimed), claims.settled)
	}
	if got := claims.claimed[1]; got.Timestamp != 1<<60+1 || !got.CleanStart || got.Username != "u" || got.ClientID != "d" {
		t.Errorf("claimed %+v", got)
	}
}

// TestOwnerships lists sessions in pages.
func TestOwnerships(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	for i := range 5 {
		c := b.Connect(keeps(fmt.Sprint("c", i)))
		if i%2 == 0 {
			c.Disconnect()
		}
	}
	until(t, "they are gone", func() bool { return b.present() == 2 })
	var got []string
	for after := ""; ; {
		part := b.Ownerships(after, 2)
		for _, h := range part {
			got = append(got, fmt.Sprintf("%s %v", h.ClientID, h.Connected))
			after = h.ClientID
		}
		if len(part) < 2 {
			break
		}
	}
	if s := fmt.Sprint(got); s != "[c0 false c1 true c2 false c3 true c4 false]" {
		t.Errorf("got %s", s)
	}
}

// TestHandoverOrder keeps the order of a publisher whose messages reached both engines, the
// former one a little earlier.
func TestHandoverOrder(t *testing.T) {
	t.Parallel()
	from, to := start(t, t.TempDir()), start(t, t.TempDir())
	c := from.Connect(keeps("c"))
	c.Subscribe("a", 1)
	c.Disconnect()
	say := func(b *broker, publisher string, stamp uint64) {
		check(t, b.Publish(&engine.Message{
			Topic: "a", QoS: 1, Payload: fmt.Append(nil, publisher, stamp), Publisher: publisher, Stamp: stamp,
		}))
	}
	for n := range uint64(3) {
		say(from, "p", n+1)
		say(from, "r", n+20)
	}
	moveSession(t, from, to, "c", func() { // messages of p reach both, those of r only one
		for n := range uint64(4) {
			say(from, "p", n+4)
		}
		say(from, "r", 23)
		for n := range uint64(2) {
			say(to, "r", n+30)
			say(to, "p", n+4)
		}
	})
	for n := range uint64(3) {
		say(to, "p", n+6) // in flight, except the last
	}
	c = to.Connect(keeps("c"))
	newest := map[string]int{}
	for range 8 + 6 {
		m := c.WantMessage()
		n, err := strconv.Atoi(m.Payload[1:])
		check(t, err)
		if n <= newest[m.Payload[:1]] {
			t.Errorf("%s comes behind %d", m.Payload, newest[m.Payload[:1]])
		}
		newest[m.Payload[:1]] = n
		c.Ack(packet.TypePuback, m.ID)
	}
	until(t, "the queue is empty", func() bool { return to.queue("c") == 0 })
}
