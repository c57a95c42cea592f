package mesh

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestAckTracker stores messages in random order, some with an error. Only stored messages are
// acknowledged, rejections are sent first, and in the end everything was sent, on a new
// connection as well.
func TestAckTracker(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		l := newAckTracker(1)
		open, refused, number := []*pendingMessage{}, map[uint64]bool{}, uint64(0)
		isOpen := map[uint64]bool{}
		sent, reported := sentAcks{}, map[uint64]bool{}
		for step := range 1500 {
			switch random.IntN(4) {
			case 0:
				number += uint64(1 + random.IntN(2)) // some numbers are skipped: given up by the sender
				s := l.add(number)
				s.delivered(nil)
				open, isOpen[number] = append(open, s), true
				if l.add(number) != nil {
					t.Fatal("a duplicate was accepted")
				}
			case 1, 2:
				if len(open) == 0 {
					continue
				}
				i := random.IntN(len(open))
				s, n := open[i], open[i].number
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
				delete(isOpen, n)
				if random.IntN(10) == 0 {
					refused[n] = true
					s.Committed(errors.New("disk full"))
				} else {
					s.Committed(nil)
				}
			case 3:
				if step%100 == 0 { // a new connection
					sent, reported = sentAcks{}, map[uint64]bool{}
				}
				checkAcks(t, l, &sent, reported, isOpen, refused)
			}
		}
		for _, s := range open {
			delete(isOpen, s.number) // before s is used again
			s.Committed(nil)
		}
		checkAcks(t, l, &sent, reported, isOpen, refused)
		if sent.stored != number || len(reported) != len(refused) {
			t.Fatalf("%d are acknowledged, want %d; %d rejections were sent, want %d", sent.stored, number, len(reported), len(refused))
		}
	}
}

// checkAcks decodes and checks what the tracker sends.
func checkAcks(t *testing.T, l *ackTracker, sent *sentAcks, reported, isOpen, refused map[uint64]bool) {
	t.Helper()
	rest := l.appendTo(nil, sent)
	for len(rest) > 0 {
		size := headerSize + int(rest[4]) | int(rest[3])<<8
		n, err := decodeAck(rest[headerSize:size])
		if err != nil {
			t.Fatal(err)
		}
		switch rest[0] {
		case frameRefused:
			if !refused[n.number] {
				t.Fatalf("message %d was not refused", n.number)
			}
			reported[n.number] = true
		case frameStored:
			for number := range isOpen {
				if number <= n.number {
					t.Fatalf("all up to %d is acknowledged, %d is not stored", n.number, number)
				}
			}
			for number := range refused {
				if number <= n.number && !reported[number] {
					t.Fatalf("all up to %d is acknowledged before %d is refused", n.number, number)
				}
			}
		}
		rest = rest[size:]
	}
}
