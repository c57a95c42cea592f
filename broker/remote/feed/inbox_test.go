package feed

import (
	"errors"
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
