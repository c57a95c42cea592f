package guard_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"signalbox/broker/embedded/guard"
)

const mebibyte = 1 << 20

// reserve expects a reservation to be made.
func reserve(t *testing.T, ticket *guard.Ticket, bytes int) {
	t.Helper()
	if err := ticket.Reserve(bytes); err != nil {
		t.Fatalf("reserve %d bytes: %v", bytes, err)
	}
}

func wantNoRoom(t *testing.T, ticket *guard.Ticket, bytes int, want guard.Refusal) {
	t.Helper()
	if err := ticket.Reserve(bytes); !errors.Is(err, want) {
		t.Fatalf("reserve %d bytes: error %v, want %v", bytes, err, want)
	}
}

func TestTheNewcomerLosesWhereItsAddressHoldsTooManyBytes(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxLoginBytesPerAddress: mebibyte, Exempt: []string{"127.0.0.0/8"}})
	first, second := d.wantIn("first", "10.0.0.1"), d.wantIn("second", "10.0.0.1")
	reserve(t, first, mebibyte*3/4)
	reserve(t, second, guard.UncountedLoginBytes)
	wantNoRoom(t, second, mebibyte/2, guard.AddressLoginBytes)
	reserve(t, second, mebibyte/4)
	wantNoRoom(t, first, mebibyte, guard.AddressLoginBytes)
	first.Leave()
	reserve(t, second, mebibyte)
	reserve(t, d.wantIn("other", "10.0.0.2"), mebibyte)
	reserve(t, d.wantIn("exempt", "127.0.0.1"), 2*mebibyte)
	d.wantCut()
}

func TestWhoHoldsMostBytesGivesWay(t *testing.T) {
	t.Parallel()
	d := newDoor(t, newClock(), guard.Config{MaxLoginBytes: 4 * mebibyte})
	reserve(t, d.wantIn("small", "10.0.0.1"), mebibyte/4)
	for _, name := range []string{"a", "b", "c"} {
		reserve(t, d.wantIn(name, "10.0.0.2"), mebibyte)
	}
	wantNoRoom(t, d.wantIn("d", "10.0.0.2"), mebibyte, guard.LoginBytes)
	d.wantCut()
	reserve(t, d.wantIn("newcomer", "10.0.0.3"), mebibyte)
	d.wantCut("a max_login_bytes")
	if got, want := d.Usage().LoginBytes, int64(mebibyte*13/4); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
}

// TestReservationsStayWithinTheirBounds reserves and leaves at random. What is
// held never exceeds the bounds, and nothing is left at the end.
func TestReservationsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	const overall, each = 8 * mebibyte, 3 * mebibyte
	d := newDoor(t, newClock(), guard.Config{MaxLoginBytes: overall, MaxLoginBytesPerAddress: each, Exempt: []string{"127.0.0.0/8"}})
	dice := rand.New(rand.NewPCG(7, 7))
	from := []string{"127.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
	var open []*guard.Ticket
	for range 20_000 {
		if len(open) == 0 || dice.IntN(3) == 0 {
			open = append(open, d.wantIn("c", from[dice.IntN(len(from))]))
			continue
		}
		i := dice.IntN(len(open))
		if dice.IntN(4) == 0 {
			open[i].Leave()
			open = append(open[:i], open[i+1:]...)
			continue
		}
		_ = open[i].Reserve(dice.IntN(320 << 10))
		if held := d.Usage().LoginBytes; held < 0 || held > overall {
			t.Fatalf("%d bytes are held", held)
		}
	}
	for _, ticket := range open {
		ticket.Leave()
	}
	if held := d.Usage().LoginBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}
