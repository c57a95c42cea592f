package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSchedule changes the times of sessions in a schedule, with the clock of the test, and
// takes them in the order in which they are due.
func TestSchedule(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 9))
	d := newSchedule(nil)
	sessions := make([]*Session, 50)
	at := map[*Session]int64{}
	for i := range sessions {
		sessions[i] = &Session{}
	}
	for range 5000 {
		s := sessions[dice.IntN(len(sessions))]
		if dice.IntN(4) == 0 {
			d.remove(s)
			delete(at, s)
			continue
		}
		at[s] = dice.Int64N(1000)
		d.set(s, at[s])
		if len(d.items.items) != len(at) {
			t.Fatalf("%d entries for %d sessions", len(d.items.items), len(at))
		}
	}
	var last int64
	for now := int64(0); now <= 1000; now += 10 {
		due := d.take(now)
		for _, s := range due {
			if at[s] < last || at[s] > now {
				t.Fatalf("a session that is due at %d came at %d, after one of %d", at[s], now, last)
			}
			last = at[s]
			delete(at, s)
		}
	}
	if len(at) > 0 || len(d.items.items) > 0 {
		t.Errorf("%d sessions never came, %d are left", len(at), len(d.items.items))
	}
}

// TestScheduleWait waits until the first session is due, but never more than a minute, and is
// woken for an earlier one.
func TestScheduleWait(t *testing.T) {
	t.Parallel()
	d := newSchedule(nil)
	if got := d.wait(0); got != time.Minute {
		t.Errorf("with nothing to do it waits %v", got)
	}
	a, b := &Session{}, &Session{}
	d.set(a, 5000)
	woken := func() bool {
		select {
		case <-d.wake:
			return true
		default:
			return false
		}
	}
	if !woken() || d.wait(1000) != 4*time.Second {
		t.Errorf("waits %v for what is due in four seconds", d.wait(1000))
	}
	if d.set(b, 6000); woken() {
		t.Error("is woken for what is not due first")
	}
	if d.set(b, 2000); !woken() || d.wait(1000) != time.Second {
		t.Errorf("waits %v after a session was moved to the front", d.wait(1000))
	}
	if got := d.take(5000); !slices.Equal(got, []*Session{b, a}) {
		t.Error("sessions came in another order")
	}
}
