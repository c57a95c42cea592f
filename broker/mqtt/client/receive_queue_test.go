package client

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// TestReceiveOverflow accepts unsettled messages up to the bounds.
func TestReceiveOverflow(t *testing.T) {
	t.Parallel()
	b := &receiveQueue{}
	b.open(&conn{serving: context.Background()}, false)
	var kept []*receivedMessage
	admit := func(id uint16, dup bool, size int) error {
		a, err := b.accept(id, 1, dup, size)
		if a != nil {
			kept = append(kept, a)
		}
		return err
	}
	for id := range uint16(4) {
		if err := admit(id+1, false, maxPacket); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit(5, false, 1); !errors.Is(err, errReceiveOverflow) {
		t.Errorf("one too many: %v", err)
	}
	b.close()
	b.open(&conn{serving: context.Background()}, true)
	if err := admit(1, true, maxPacket); err != nil || len(kept) != 4 {
		t.Errorf("duplicate: %v, %d kept", err, len(kept))
	}
	kept[0].Committed(nil)
	if err := admit(5, false, maxPacket); err != nil {
		t.Errorf("after another was settled: %v", err)
	}
	for _, a := range kept[1:] {
		a.Committed(nil)
	}
	for id := range uint16(maxWaiting) {
		if err := admit(id, false, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit(1, false, 0); !errors.Is(err, errReceiveOverflow) {
		t.Errorf("with an identifier that is not free: %v", err)
	}
}

// TestOrderAfterReconnect loses the acknowledgement of the first of two messages with the
// connection while the second is not settled. Both are redelivered and the first is accepted
// again. So must the second be: it is the newer one [MQTT-4.6.0-6].
func TestOrderAfterReconnect(t *testing.T) {
	t.Parallel()
	b := &receiveQueue{}
	var taken []uint16
	admit := func(id uint16, qos byte, dup bool) *receivedMessage {
		t.Helper()
		a, err := b.accept(id, qos, dup, 1)
		if err != nil {
			t.Fatal(err)
		}
		if a != nil {
			taken = append(taken, id)
		}
		return a
	}
	b.open(&conn{serving: context.Background(), out: newSendQueue()}, false)
	admit(1, 1, false).Committed(nil)
	second := admit(2, 1, false)
	admit(3, 2, false)
	fourth := admit(4, 1, false)
	b.close()
	b.open(&conn{serving: context.Background(), out: newSendQueue()}, true)
	again := []*receivedMessage{admit(1, 1, true), admit(2, 1, true)}
	if a := admit(3, 2, true); a != nil {
		t.Error("a QoS 2 message is accepted twice")
	}
	again = append(again, admit(4, 1, true))
	if want := []uint16{1, 2, 3, 4, 1, 2, 4}; !slices.Equal(taken, want) {
		t.Fatalf("accepted in the order %v, want %v", taken, want)
	}
	second.Committed(nil)
	fourth.Committed(nil)
	for i, a := range again {
		if a.Committed(nil); (b.byID[a.id] == nil) != (i < 2) {
			t.Errorf("message %d: acknowledged %t, want all before message 3 and none behind it", a.id, b.byID[a.id] == nil)
		}
	}
	if b.waiting != 1 || b.bytes != 1 {
		t.Errorf("%d messages of %d bytes are counted, want that of QoS 2", b.waiting, b.bytes)
	}
}

// TestNoDuplicatesAfterReconnect does not accept messages again that were unacknowledged when
// the connection ended.
func TestNoDuplicatesAfterReconnect(t *testing.T) {
	t.Parallel()
	b := &receiveQueue{}
	b.open(&conn{serving: context.Background(), out: newSendQueue()}, false)
	for id := range uint16(3) {
		if a, err := b.accept(id+1, 1, false, 1); a == nil || err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	b.open(&conn{serving: context.Background(), out: newSendQueue()}, true)
	for id := range uint16(3) {
		if a, err := b.accept(id+1, 1, true, 1); a != nil || err != nil {
			t.Errorf("message %d is accepted again: %v", id+1, err)
		}
	}
	if a, err := b.accept(4, 1, true, 1); a == nil || err != nil { // lost with the connection
		t.Errorf("message 4 is not accepted: %v", err)
	}
}

// TestOthersUseSession has others use the session between two connections. A message has the identifier of one that was not
// settled before: it is another one, and is acknowledged only when it is settled itself.
func TestOthersUseSession(t *testing.T) {
	t.Parallel()
	for qos := byte(1); qos <= 2; qos++ {
		b := &receiveQueue{}
		serving, end := context.WithCancel(t.Context())
		b.open(&conn{serving: serving, out: newSendQueue()}, false)
		former, err := b.accept(1, qos, false, 10)
		if err != nil || former.Withdrawn() {
			t.Fatalf("QoS %d: %v", qos, err)
		}
		end()
		if !former.Withdrawn() {
			t.Errorf("QoS %d: the message is not withdrawn", qos)
		}
		b.close()
		out := newSendQueue()
		b.open(&conn{serving: t.Context(), out: out}, true)
		next, err := b.accept(1, qos, true, 10)
		if err != nil || next == nil {
			t.Fatalf("QoS %d: the next message is taken for the former one: %v", qos, err)
		}
		former.Committed(nil)
		if len(out.buf) > 0 || next.settled {
			t.Errorf("QoS %d: the former message acknowledges the next one", qos)
		}
		next.Committed(nil)
		if b.waiting != 0 || b.bytes != 0 || len(out.buf) == 0 {
			t.Errorf("QoS %d: %d messages of %d bytes wait, acknowledged: %v", qos, b.waiting, b.bytes, len(out.buf) > 0)
		}
	}
}

// TestTakenOver has others take the session over while this side still believes that it uses it alone.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	b := &receiveQueue{}
	c := &conn{serving: t.Context(), out: newSendQueue()}
	b.open(c, false)
	former, err := b.accept(1, 1, false, 10)
	if err != nil {
		t.Fatal(err)
	}
	b.abandon()
	b.close()
	b.open(c, true)
	next, err := b.accept(1, 1, true, 10)
	if err != nil || next == nil {
		t.Fatalf("the next message is taken for the former one: %v", err)
	}
	former.Committed(nil)
	if len(c.out.buf) > 0 {
		t.Error("the former message acknowledges the next one")
	}
}
