package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// queued returns a queue with n messages of QoS 1 that may be sent.
func queued(n int) *outgoingQueue {
	o := newOutgoingQueue()
	for range n {
		o.push(&entry{message: &Message{}, state: committed, qos: 1, size: 1})
	}
	return &o
}

// launchAll sends what may be sent and returns the sequence numbers.
func (o *outgoingQueue) launchAll(window int) (seqs []uint64) {
	for {
		e, _ := o.sendable(window)
		if e == nil {
			return seqs
		}
		seqs = append(seqs, e.seq)
		o.launch(e)
	}
}

// finishSeq marks the message of a sequence number as done.
func finishSeq(t *testing.T, o *outgoingQueue, seq uint64) {
	t.Helper()
	e := o.get(seq)
	if e == nil {
		t.Fatalf("message %d is gone", seq)
	}
	o.finish(e)
}

func TestIdentifier(t *testing.T) {
	t.Parallel()
	for seq, want := range map[uint64]uint16{1: 1, 2: 2, 65535: 65535, 65536: 1, 2 * 65535: 65535, 2*65535 + 1: 1} {
		if got := identifier(seq); got != want {
			t.Errorf("identifier(%d) = %d, want %d", seq, got, want)
		}
	}
}

// TestOutgoingWindow shows that no more messages are in flight than the window allows, and that
// an acknowledgement out of order frees the window [MQTT-3.3.4-9].
func TestOutgoingWindow(t *testing.T) {
	t.Parallel()
	o := queued(6)
	if got := o.launchAll(3); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Fatalf("sent %v at first", got)
	}
	if _, waits := o.sendable(3); !waits {
		t.Error("it is not told that the fourth waits for the client")
	}
	finishSeq(t, o, 2)
	if got := o.launchAll(3); !slices.Equal(got, []uint64{4}) {
		t.Errorf("sent %v after the acknowledgement of the second", got)
	}
	finishSeq(t, o, 1)
	finishSeq(t, o, 3)
	if got := o.launchAll(3); !slices.Equal(got, []uint64{5, 6}) {
		t.Errorf("sent %v after all acknowledgements but one", got)
	}
	if o.head() != 4 || o.live != 3 || o.inflight != 3 || o.bytes != 3 {
		t.Errorf("head %d, live %d, flying %d, bytes %d", o.head(), o.live, o.inflight, o.bytes)
	}
}

// TestOutgoingFind finds messages by packet identifier only after they were sent on the
// connection.
func TestOutgoingFind(t *testing.T) {
	t.Parallel()
	o := queued(3)
	if o.find(1) != nil {
		t.Error("found a message that was not sent")
	}
	o.launchAll(2)
	for id, want := range map[uint16]bool{0: false, 1: true, 2: true, 3: false, 65535: false} {
		if got := o.find(id) != nil; got != want {
			t.Errorf("find(%d) = %t, want %t", id, got, want)
		}
	}
	o.rewind()
	if o.find(1) != nil {
		t.Error("found a message that was not sent on the new connection")
	}
}

// TestOutgoingIdentifiersAreUnique uses all packet identifiers more than once, while one
// message is never acknowledged [MQTT-2.2.1-4].
func TestOutgoingIdentifiersAreUnique(t *testing.T) {
	t.Parallel()
	o := queued(packetIDs + 10)
	sent := o.launchAll(packetIDs + 10)
	if len(sent) != packetIDs {
		t.Fatalf("%d messages are under way at once", len(sent))
	}
	for _, seq := range sent[1:] {
		finishSeq(t, o, seq)
	}
	if e, waits := o.sendable(20); e != nil || !waits {
		t.Fatalf("message %d was to be sent while its identifier is in use", e.seq)
	}
	if e := o.find(1); e == nil || e.seq != 1 {
		t.Fatalf("identifier 1 stands for %v", e)
	}
	finishSeq(t, o, 1)
	if got := o.launchAll(20); !slices.Equal(got, []uint64{65536, 65537, 65538, 65539, 65540, 65541, 65542, 65543, 65544, 65545}) {
		t.Errorf("sent %v", got)
	}
	if e := o.find(1); e == nil || e.seq != 65536 {
		t.Errorf("identifier 1 stands for %v", e)
	}
}

// TestOutgoingKeepsNoGaps shows that one old message does not hold the memory of all that were
// done behind it.
func TestOutgoingKeepsNoGaps(t *testing.T) {
	t.Parallel()
	o := queued(1)
	for range 100_000 {
		seq := o.push(&entry{message: &Message{}, state: committed, size: 1})
		finishSeq(t, o, seq)
	}
	if n := len(o.kept.buf); n > 4*keepRing {
		t.Errorf("room for %d entries is kept for one", n)
	}
	if last := o.push(&entry{state: committed}); last != 100_002 {
		t.Errorf("the next sequence number is %d", last)
	}
	first := o.launchAll(5)
	finishSeq(t, o, 1)
	if got := append(first, o.launchAll(5)...); !slices.Equal(got, []uint64{1, 100_002}) {
		t.Errorf("sent %v", got)
	}
}

// TestOutgoingRestore restores messages with gaps between them, and continues behind those that
// were sent.
func TestOutgoingRestore(t *testing.T) {
	t.Parallel()
	o := newOutgoingQueue()
	for _, seq := range []uint64{7, 9, 70_000_000_000} {
		o.restore(seq, entry{state: committed})
	}
	if got := o.push(&entry{state: committed}); got != 70_000_000_001 {
		t.Errorf("the next message got %d", got)
	}
	if o.get(8) != nil || o.get(9) == nil || o.get(70_000_000_000) == nil {
		t.Error("messages are not where they were")
	}
	if got := o.launchAll(10); !slices.Equal(got, []uint64{7, 9}) {
		t.Errorf("sent %v; what is 65535 ahead must wait", got)
	}
	empty := newOutgoingQueue()
	empty.skip(500)
	if got := empty.push(&entry{state: committed}); got != 501 {
		t.Errorf("after 500 came %d", got)
	}
	if got := empty.launchAll(1); !slices.Equal(got, []uint64{501}) {
		t.Errorf("sent %v", got)
	}
}

// TestOutgoingRewind sends messages that are not done again, in order [MQTT-4.4.0-1].
func TestOutgoingRewind(t *testing.T) {
	t.Parallel()
	o := queued(5)
	o.launchAll(4)
	finishSeq(t, o, 2)
	o.rewind()
	if o.inflight != 0 {
		t.Errorf("%d are under way on a connection that has just begun", o.inflight)
	}
	finishSeq(t, o, 3) // expired meanwhile
	if o.inflight != 0 {
		t.Errorf("flying is %d after one ended that was not under way", o.inflight)
	}
	if got := o.launchAll(5); !slices.Equal(got, []uint64{1, 4, 5}) {
		t.Errorf("sent %v", got)
	}
	if o.upTo != 5 {
		t.Errorf("sent up to %d", o.upTo)
	}
}

// TestOutgoingQoS0 shows when messages of QoS 0 are sent: not before earlier messages, unless
// these wait for the client, and not before one that is being stored.
func TestOutgoingQoS0(t *testing.T) {
	t.Parallel()
	o := newOutgoingQueue()
	o.push(&entry{qos: 1})
	o.qos0.push(qos0Message{message: &Message{}, after: o.tail - 1})
	if _, waits := o.sendable(1); waits || o.qos0Sendable(waits) {
		t.Error("a message of QoS 0 overtakes one that is being stored")
	}
	o.get(1).state |= committed
	if e, waits := o.sendable(1); e == nil || o.qos0Sendable(waits) {
		t.Error("a message of QoS 0 overtakes one that can be sent")
	}
	o.launchAll(1)
	if _, waits := o.sendable(1); !o.qos0Sendable(waits) {
		t.Error("a message of QoS 0 does not follow the one before it")
	}
	o.push(&entry{qos: 1, state: committed})
	o.qos0.pop()
	o.qos0.push(qos0Message{message: &Message{}, after: o.tail - 1})
	if _, waits := o.sendable(1); !waits || !o.qos0Sendable(waits) {
		t.Error("a message of QoS 0 waits for the client's acknowledgements")
	}
	if n := o.dropQoS0(); n != 1 || o.qos0.len() != 0 || o.waiting() != 2 {
		t.Errorf("dropped %d, left %d in all", n, o.waiting())
	}
}

// naive is a simple model of the queue.
type naive struct {
	list       []naiveEntry
	tail, next uint64
	flying     int
}

type naiveEntry struct {
	seq     uint64
	durable bool
}

func (n *naive) sendable(window int) (uint64, bool) {
	for _, e := range n.list {
		if e.seq < n.next {
			continue
		}
		ok := n.flying < window && e.seq-n.list[0].seq < packetIDs && e.durable
		return e.seq, ok
	}
	return 0, false
}

func (n *naive) finish(i int) {
	if n.list[i].seq < n.next {
		n.flying--
	}
	n.list = slices.Delete(n.list, i, i+1)
}

// TestOutgoingModel compares the queue with the model under random operations.
func TestOutgoingModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 3))
		o, n := newOutgoingQueue(), naive{tail: 1, next: 1}
		window := 1 + dice.IntN(8)
		bias := dice.IntN(6)
		for step := range 400 {
			switch op := dice.IntN(6 + bias); {
			case op < 1:
				o.rewind()
				n.next, n.flying = 0, 0
			case op == 1 && len(n.list) > 0:
				i := dice.IntN(len(n.list))
				n.list[i].durable = true
				o.get(n.list[i].seq).state |= committed
			case op == 2 && len(n.list) > 0:
				i := dice.IntN(len(n.list))
				finishSeq(t, &o, n.list[i].seq)
				n.finish(i)
			case op == 3:
				if e, _ := o.sendable(window); e != nil {
					o.launch(e)
				}
				if seq, ok := n.sendable(window); ok {
					n.next = seq + 1
					n.flying++
				}
			default:
				isDurable := dice.IntN(4) > 0
				e := entry{size: 3}
				if isDurable {
					e.state = committed
				}
				o.push(&e)
				n.list = append(n.list, naiveEntry{n.tail, isDurable})
				n.tail++
			}
			compare(t, seed, step, &o, &n, window)
		}
	}
}

func compare(t *testing.T, seed uint64, step int, o *outgoingQueue, n *naive, window int) {
	t.Helper()
	var seqs []uint64
	for e := range o.all() {
		seqs = append(seqs, e.seq)
	}
	var want []uint64
	for _, e := range n.list {
		want = append(want, e.seq)
		if found := o.get(e.seq); found == nil || found.seq != e.seq {
			t.Fatalf("seed %d, step %d: message %d is not found", seed, step, e.seq)
		}
		if sent := o.find(identifier(e.seq)) != nil; sent != (e.seq < n.next) {
			t.Fatalf("seed %d, step %d: message %d found by its identifier: %t", seed, step, e.seq, sent)
		}
	}
	e, _ := o.sendable(window)
	seq, ok := n.sendable(window)
	switch {
	case !slices.Equal(seqs, want):
		t.Fatalf("seed %d, step %d: holds %v, want %v", seed, step, seqs, want)
	case o.live != len(want) || o.inflight != n.flying || o.tail != n.tail || o.bytes != 3*int64(len(want)):
		t.Fatalf("seed %d, step %d: live %d, flying %d, tail %d, bytes %d; want %d, %d, %d",
			seed, step, o.live, o.inflight, o.tail, o.bytes, len(want), n.flying, n.tail)
	case ok != (e != nil) || ok && e.seq != seq:
		t.Fatalf("seed %d, step %d: to be sent %v, want %d (%t)", seed, step, e, seq, ok)
	}
}
