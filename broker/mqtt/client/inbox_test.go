package client

import (
	"errors"
	"slices"
	"testing"
)

// TestFlood keeps so much of what a broker sends that is not settled, and no more.
func TestFlood(t *testing.T) {
	t.Parallel()
	b := &inbox{}
	b.open(nil, false)
	var kept []*arrival
	admit := func(id uint16, dup bool, size int) error {
		a, err := b.admit(id, 1, dup, size)
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
	if err := admit(5, false, 1); !errors.Is(err, errFlood) {
		t.Errorf("one too many: %v", err)
	}
	b.close()
	b.open(nil, true)
	if err := admit(1, true, maxPacket); err != nil || len(kept) != 4 {
		t.Errorf("one that was taken before: %v, %d kept", err, len(kept))
	}
	kept[0].Settled(nil)
	if err := admit(5, false, maxPacket); err != nil {
		t.Errorf("after another was settled: %v", err)
	}
	for _, a := range kept[1:] {
		a.Settled(nil)
	}
	for id := range uint16(maxWaiting) {
		if err := admit(id, false, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit(1, false, 0); !errors.Is(err, errFlood) {
		t.Errorf("with an identifier that is not free: %v", err)
	}
}

// TestOrderOverALoss has a connection end when the first of two messages is acknowledged,
// the acknowledgement is lost, and the second one is taken and not settled. Both are sent
// again, and the first is taken again. The second must be, too: it is the newer one, and
// what is retained, for one, is what came last [MQTT-4.6.0-6].
func TestOrderOverALoss(t *testing.T) {
	t.Parallel()
	b := &inbox{}
	var taken []uint16
	admit := func(id uint16, qos byte, dup bool) *arrival {
		t.Helper()
		a, err := b.admit(id, qos, dup, 1)
		if err != nil {
			t.Fatal(err)
		}
		if a != nil {
			taken = append(taken, id)
		}
		return a
	}
	b.open(newOutbox(), false)
	admit(1, 1, false).Settled(nil)
	second := admit(2, 1, false)
	admit(3, 2, false)
	fourth := admit(4, 1, false)
	b.close()
	b.open(newOutbox(), true)
	again := []*arrival{admit(1, 1, true), admit(2, 1, true)}
	if a := admit(3, 2, true); a != nil {
		t.Error("a message of QoS 2 is taken twice")
	}
	again = append(again, admit(4, 1, true))
	if want := []uint16{1, 2, 3, 4, 1, 2, 4}; !slices.Equal(taken, want) {
		t.Fatalf("taken in the order %v, want %v", taken, want)
	}
	second.Settled(nil)
	fourth.Settled(nil)
	for i, a := range again {
		if a.Settled(nil); (b.held[a.id] == nil) != (i < 2) {
			t.Errorf("message %d: acknowledged %t, want all before message 3 and none behind it", a.id, b.held[a.id] == nil)
		}
	}
	if b.waiting != 1 || b.bytes != 1 {
		t.Errorf("%d messages of %d bytes are counted, want that of QoS 2", b.waiting, b.bytes)
	}
}

// TestTakenOnceOverALoss has a connection end while messages are taken and none is
// acknowledged: none is taken again.
func TestTakenOnceOverALoss(t *testing.T) {
	t.Parallel()
	b := &inbox{}
	b.open(newOutbox(), false)
	for id := range uint16(3) {
		if a, err := b.admit(id+1, 1, false, 1); a == nil || err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	b.open(newOutbox(), true)
	for id := range uint16(3) {
		if a, err := b.admit(id+1, 1, true, 1); a != nil || err != nil {
			t.Errorf("message %d is taken again: %v", id+1, err)
		}
	}
	if a, err := b.admit(4, 1, true, 1); a == nil || err != nil { // was lost with the connection
		t.Errorf("message 4 is not taken: %v", err)
	}
}
