package broker

import (
	"context"
	"errors"
	"testing"
)

// line is a live broker that only knows whether it was closed. The pool's own rules
// need no more; the tests of the API cover it with real brokers.
type line struct {
	Broker
	closed chan struct{}
}

func (l *line) Close(context.Context) error {
	close(l.closed)
	return nil
}

func dialed(counts *int) Dial {
	return func(t Target) (Broker, error) {
		if t.URL == "" {
			return nil, &Error{Kind: Invalid, Msg: "no URL"}
		}
		*counts++
		return &line{closed: make(chan struct{})}, nil
	}
}

func TestPoolDialsOncePerRevision(t *testing.T) {
	t.Parallel()
	n := 0
	p := NewPool(dialed(&n))
	get := func(rev int64) *line {
		b, err := p.Get(Target{ID: "a", Rev: rev, URL: "mqtt://h"})
		if err != nil {
			t.Fatal(err)
		}
		return b.(*line)
	}
	first := get(1)
	if get(1) != first || n != 1 {
		t.Error("the same revision was dialled twice")
	}
	second := get(2)
	<-first.closed // the older one is closed
	if second == first || n != 2 {
		t.Error("a newer revision was not dialled")
	}
	if get(1) != second {
		t.Error("an older revision replaced a newer one")
	}
	if p.Live("a", 2) != second || p.Live("a", 3) != nil || p.Live("b", 0) != nil {
		t.Error("Live does not tell what is there")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-second.closed
	if _, err := p.Get(Target{ID: "a", Rev: 2, URL: "mqtt://h"}); KindOf(err) != Unavailable {
		t.Errorf("after Close: got %v, want Unavailable", err)
	}
}

func TestPoolKeepsWhatIsPinned(t *testing.T) {
	t.Parallel()
	n := 0
	p, own := NewPool(dialed(&n)), &line{closed: make(chan struct{})}
	p.Pin("own", own)
	if b, err := p.Get(Target{ID: "own", Rev: 99, URL: "mqtt://h"}); b != own || err != nil || n != 0 {
		t.Errorf("got %v, %v after %d calls, want the pinned broker", b, err, n)
	}
	if err := errors.Join(p.Drop(t.Context(), "own"), p.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-own.closed:
		t.Error("the pool closed a broker that it did not dial")
	default:
	}
}

func TestPoolDropAndFailedDial(t *testing.T) {
	t.Parallel()
	n := 0
	p := NewPool(dialed(&n))
	if _, err := p.Get(Target{ID: "bad"}); KindOf(err) != Invalid {
		t.Errorf("got %v, want Invalid", err)
	}
	b, err := p.Get(Target{ID: "a", URL: "mqtt://h"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Drop(t.Context(), "a"), p.Drop(t.Context(), "a")); err != nil {
		t.Fatal(err)
	}
	<-b.(*line).closed
	if p.Live("a", 0) != nil {
		t.Error("a dropped broker is still live")
	}
	if _, err := p.Get(Target{ID: "a", Rev: 9, URL: "mqtt://h"}); KindOf(err) != NotFound || n != 1 {
		t.Errorf("a dropped broker was dialled again: %v after %d calls", err, n)
	}
}
