package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

var errRefused = errors.New("not now")

// TestModes stores changes where each mode stores them.
func TestModes(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	modes := []struct {
		name      string
		enter     func(context.Context) error
		submitted bool
		loads     bool
		err       error
	}{
		{"alone at first", func(context.Context) error { return nil }, true, true, nil},
		{"follow", s.Follow, false, false, nil},
		{"alone", s.Alone, true, true, nil},
		{"refuse", func(ctx context.Context) error { return s.Refuse(ctx, errRefused) }, false, false, errRefused},
		{"share", func(ctx context.Context) error { return s.Share(ctx, &retainer{}) }, true, true, nil},
	}
	for i, mode := range modes {
		must(t, mode.enter(t.Context()))
		n := uint64(i + 1)
		if err := <-submit(s, change(n)); !errors.Is(err, mode.err) {
			t.Errorf("%s: settled with %v, want %v", mode.name, err, mode.err)
		}
		if err := s.Err(); !errors.Is(err, mode.err) {
			t.Errorf("%s: got error %v, want %v", mode.name, err, mode.err)
		}
		submitted, _ := l.kept()
		if slices.Contains(submitted, n) != mode.submitted {
			t.Errorf("%s: the node's own store was given %v", mode.name, submitted)
		}
		snapshot, err := s.Load(t.Context())
		must(t, err)
		if loads := snapshot.LastMessageID != 0; loads != mode.loads {
			t.Errorf("%s: loads what is stored: %t, want %t", mode.name, loads, mode.loads)
		}
		s.WaitForCapacity()
	}
}

// TestApply stores commands together, with the index of the last.
func TestApply(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	first := encode(nil, []*engine.Changes{change(1), sized(2, 10)})
	must(t, s.Apply(7, first, encode(nil, []*engine.Changes{change(3)})))
	if _, applied := l.kept(); !slices.Equal(applied, upTo(1, 3)) || l.index != 7 {
		t.Errorf("applied %v with index %d", applied, l.index)
	}
	if err := s.Apply(8, first, first[:len(first)-1]); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged command gives %v", err)
	}
	if _, applied := l.kept(); len(applied) != 3 || l.index != 7 {
		t.Errorf("a damaged command changed something: %v, index %d", applied, l.index)
	}
}

// stuck is a store that reports nothing until it is released.
type stuck struct {
	*local
	release chan struct{}
	tasks   sync.WaitGroup
}

func (s *stuck) Submit(c *engine.Changes) {
	s.tasks.Go(func() {
		<-s.release
		s.local.Submit(c)
	})
}

// TestDrainInTime keeps the mode when the node's own store does not commit in time.
func TestDrainInTime(t *testing.T) {
	t.Parallel()
	l := &stuck{local: newLocal(t), release: make(chan struct{})}
	t.Cleanup(l.tasks.Wait)
	s := Open(Options{Local: l, Encode: encode, Decode: decode})
	one := submit(s, change(1))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRefused)
	if err := s.Follow(ctx); !errors.Is(err, errRefused) {
		t.Fatalf("got error %v, want %v", err, errRefused)
	}
	two := submit(s, change(2))
	close(l.release)
	must(t, <-one, <-two)
	if submitted, _ := l.kept(); len(submitted) != 2 {
		t.Errorf("the node's own store was given %v", submitted)
	}
	must(t, s.Follow(t.Context()), <-submit(s, change(3)), s.Close(t.Context()))
	if submitted, _ := l.kept(); len(submitted) != 2 {
		t.Errorf("a follower's store was given %v", submitted)
	}
}

// TestChangesOfMode changes modes at random under load. Every outcome is reported once
// and in order, and every committed change is stored once, except in a mode that stores
// nothing.
func TestChangesOfMode(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{false, false, false, true} {
		seed := suite.Seed(t)
		t.Run(fmt.Sprint(seed, follows), func(t *testing.T) {
			t.Parallel()
			s, l := open(t)
			stop := make(chan struct{})
			var makers sync.WaitGroup
			journals := make([]*journal, 4)
			made := make([]uint64, len(journals))
			for i := range journals {
				journals[i] = newJournal()
				makers.Go(func() { made[i] = journals[i].until(s, uint64(i+1)<<32, stop) })
			}
			changeModes(t, s, rand.New(rand.NewPCG(seed, 0)), follows)
			close(stop)
			makers.Wait()
			known := stored(t, l)
			for i, j := range journals {
				settled, errs := j.wait(int(made[i]))
				first := uint64(i+1) << 32
				if !slices.Equal(settled, upTo(first, first+made[i]-1)) {
					t.Fatalf("of maker %d not all %d changes are settled once and in order", i, made[i])
				}
				if n := forgotten(settled, errs, known); n > 0 && !follows {
					t.Errorf("%d of %d changes are settled without an error and not stored", n, made[i])
				}
			}
		})
	}
}

// until submits changes until stop is closed, and returns how many. At most 256 are
// pending.
func (j *journal) until(s *Store, first uint64, stop <-chan struct{}) (made uint64) {
	for {
		select {
		case <-stop:
			return made
		default:
			s.WaitForCapacity()
			j.count(s, first+made, first+made)
			made++
			j.wait(int(made) - 256)
		}
	}
}

// changeModes goes through random modes, and ends alone. In most it waits for some
// outcome.
func changeModes(t *testing.T, s *Store, r *rand.Rand, follows bool) {
	t.Helper()
	modes := []func() error{
		func() error { return s.Alone(t.Context()) },
		func() error { return s.Refuse(t.Context(), errRefused) },
		func() error { return s.Share(t.Context(), &retainer{}) },
		func() error {
			_, err := s.Lead(t.Context(), (&consensus{store: s, failAt: r.IntN(6)}).Begin)
			return err
		},
		func() error { return leadAlone(t, s) },
		func() error { return s.Follow(t.Context()) },
	}
	if !follows {
		modes = modes[:5]
	}
	for range 100 {
		must(t, modes[r.IntN(len(modes))]())
		for range r.IntN(3) {
			done := submit(s, &engine.Changes{Owed: true})
			if r.IntN(4) == 0 {
				must(t, modes[r.IntN(4)]())
			}
			select {
			case <-done:
			case <-t.Context().Done():
			}
		}
	}
	must(t, s.Alone(t.Context()))
}

// leadAlone leads while nothing is committed, and ends the leadership.
func leadAlone(t *testing.T, s *Store) error {
	t.Helper()
	c := &consensus{store: s}
	defer c.hold()()
	if _, err := s.Lead(t.Context(), c.Begin); err != nil {
		return err
	}
	pending := submit(s, &engine.Changes{})
	must(t, s.Refuse(t.Context(), errRefused))
	if err := <-pending; !errors.Is(err, errLeadershipEnded) {
		t.Errorf("what nobody agrees upon is settled with %v", err)
	}
	return nil
}

// stored returns the changes of the store, and fails the test if one is there twice.
func stored(t *testing.T, l *local) map[uint64]bool {
	t.Helper()
	known := map[uint64]bool{}
	submitted, applied := l.kept()
	for _, n := range append(submitted, applied...) {
		if n != 0 && known[n] {
			t.Errorf("change %d was given to the store twice", n)
		}
		known[n] = true
	}
	return known
}

// forgotten counts changes that were reported as committed and are not stored.
func forgotten(settled []uint64, errs []error, known map[uint64]bool) (n int) {
	for i := range settled {
		if errs[i] == nil && !known[settled[i]] {
			n++
		}
	}
	return n
}

// TestDrainFullDisk keeps the mode when the node's own store cannot write, and does not
// wait.
func TestDrainFullDisk(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	l.fail(errRefused)
	if err := s.Follow(t.Context()); !errors.Is(err, errRefused) {
		t.Fatalf("got error %v, want %v", err, errRefused)
	}
	if err := <-submit(s, change(1)); !errors.Is(err, errRefused) {
		t.Errorf("settled with %v, want %v", err, errRefused)
	}
	l.fail(nil)
	must(t, s.Follow(t.Context()), <-submit(s, change(2)))
	if submitted, _ := l.kept(); !slices.Equal(submitted, []uint64{1}) {
		t.Errorf("the node's own store was given %v", submitted)
	}
}
