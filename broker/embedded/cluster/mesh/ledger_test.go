package mesh

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestLedger has messages become safe in any order, some with trouble. What is
// said to be safe is so, trouble is told before, and all is told in the end, to
// a connection that comes later as well.
func TestLedger(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test's
		l := newLedger(1)
		open, refused, number := []*slot{}, map[uint64]bool{}, uint64(0)
		isOpen := map[uint64]bool{}
		told, heard := answers{}, map[uint64]bool{}
		for step := range 1500 {
			switch random.IntN(4) {
			case 0:
				number += uint64(1 + random.IntN(2)) // some are given up on the way
				s := l.note(number)
				s.handed(nil)
				open, isOpen[number] = append(open, s), true
				if l.note(number) != nil {
					t.Fatal("a message was taken in twice")
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
					s.Settled(errors.New("no room"))
				} else {
					s.Settled(nil)
				}
			case 3:
				if step%100 == 0 { // another connection
					told, heard = answers{}, map[uint64]bool{}
				}
				hear(t, l, &told, heard, isOpen, refused)
			}
		}
		for _, s := range open {
			s.Settled(nil)
			delete(isOpen, s.number)
		}
		hear(t, l, &told, heard, isOpen, refused)
		if told.safe != number || len(heard) != len(refused) {
			t.Fatalf("%d is safe, want %d; heard of %d refused ones, want %d", told.safe, number, len(heard), len(refused))
		}
	}
}

// hear reads what the ledger tells.
func hear(t *testing.T, l *ledger, told *answers, heard, isOpen, refused map[uint64]bool) {
	t.Helper()
	rest := l.append(nil, told)
	for len(rest) > 0 {
		size := headSize + int(rest[4]) | int(rest[3])<<8
		n, err := decodeNumbered(rest[headSize:size])
		if err != nil {
			t.Fatal(err)
		}
		switch rest[0] {
		case frameRefused:
			if !refused[n.number] {
				t.Fatalf("message %d was not refused", n.number)
			}
			heard[n.number] = true
		case frameDone:
			for number := range isOpen {
				if number <= n.number {
					t.Fatalf("all up to %d is said to be safe, %d is not", n.number, number)
				}
			}
			for number := range refused {
				if number <= n.number && !heard[number] {
					t.Fatalf("all up to %d is said to be safe before %d is refused", n.number, number)
				}
			}
		}
		rest = rest[size:]
	}
}
