package limits_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"signalbox/broker/embedded/limits"
)

const mebibyte = 1 << 20

// reserve expects a reservation to succeed.
func reserve(t *testing.T, admission *limits.Admission, bytes int) {
	t.Helper()
	if err := admission.Reserve(bytes); err != nil {
		t.Fatalf("reserve %d bytes: %v", bytes, err)
	}
}

func wantReserveRefused(t *testing.T, admission *limits.Admission, bytes int, want limits.Refusal) {
	t.Helper()
	if err := admission.Reserve(bytes); !errors.Is(err, want) {
		t.Fatalf("reserve %d bytes: error %v, want %v", bytes, err, want)
	}
}

func TestMaxLoginBytesPerAddressRefusesTheNewest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxLoginBytesPerAddress: mebibyte, Exempt: []string{"127.0.0.0/8"}})
	first, second := f.wantAdmitted("first", "10.0.0.1"), f.wantAdmitted("second", "10.0.0.1")
	reserve(t, first, mebibyte*3/4)
	reserve(t, second, limits.UncountedLoginBytes)
	wantReserveRefused(t, second, mebibyte/2, limits.AddressLoginBytes)
	reserve(t, second, mebibyte/4)
	wantReserveRefused(t, first, mebibyte, limits.AddressLoginBytes)
	first.Release()
	reserve(t, second, mebibyte)
	reserve(t, f.wantAdmitted("other", "10.0.0.2"), mebibyte)
	reserve(t, f.wantAdmitted("exempt", "127.0.0.1"), 2*mebibyte)
	f.wantEvicted()
}

func TestMaxLoginBytesEvictsFromTheLargestHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newClock(), limits.Config{MaxLoginBytes: 4 * mebibyte})
	reserve(t, f.wantAdmitted("small", "10.0.0.1"), mebibyte/4)
	for _, name := range []string{"a", "b", "c"} {
		reserve(t, f.wantAdmitted(name, "10.0.0.2"), mebibyte)
	}
	wantReserveRefused(t, f.wantAdmitted("d", "10.0.0.2"), mebibyte, limits.LoginBytes)
	f.wantEvicted()
	reserve(t, f.wantAdmitted("newcomer", "10.0.0.3"), mebibyte)
	f.wantEvicted("a max_login_bytes")
	if got, want := f.Usage().LoginBytes, int64(mebibyte*13/4); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
}

// TestReservationsStayWithinTheirBounds reserves and releases at random. The bytes held
// never exceed the bounds, and none are left at the end.
func TestReservationsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	const overall, each = 8 * mebibyte, 3 * mebibyte
	f := newFixture(t, newClock(), limits.Config{MaxLoginBytes: overall, MaxLoginBytesPerAddress: each, Exempt: []string{"127.0.0.0/8"}})
	dice := rand.New(rand.NewPCG(7, 7))
	from := []string{"127.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
	var open []*limits.Admission
	for range 20_000 {
		if len(open) == 0 || dice.IntN(3) == 0 {
			open = append(open, f.wantAdmitted("c", from[dice.IntN(len(from))]))
			continue
		}
		i := dice.IntN(len(open))
		if dice.IntN(4) == 0 {
			open[i].Release()
			open = append(open[:i], open[i+1:]...)
			continue
		}
		_ = open[i].Reserve(dice.IntN(320 << 10))
		if held := f.Usage().LoginBytes; held < 0 || held > overall {
			t.Fatalf("%d bytes are held", held)
		}
	}
	for _, admission := range open {
		admission.Release()
	}
	if held := f.Usage().LoginBytes; held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}
