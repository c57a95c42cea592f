package cluster

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"signalbox/scripts/suite"
)

// batched is a register that applies several commands in one transaction, once its gate is open.
// It can be made to fail at a command that writes "stop".
type batched struct {
	*register
	gate chan struct{}

	mu    sync.Mutex // guards the fields below
	stops bool
	sizes []int
	last  uint64
}

func (b *batched) Apply(index uint64, command []byte) any {
	return b.ApplyBatch([]Command{{index, command}})[0]
}

func (b *batched) ApplyBatch(commands []Command) []any {
	<-b.gate
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizes = append(b.sizes, len(commands))
	r := b.register
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := make([]any, len(commands))
	err := r.store(commands[len(commands)-1].Index, func(tx *sql.Tx) error {
		for i, c := range commands {
			var w write
			if err := json.Unmarshal(c.Data, &w); err != nil {
				return err
			}
			if c.Index <= b.last || w.Value == "stop" && b.stops {
				return fmt.Errorf("command %d, value %s, after %d", c.Index, w.Value, b.last)
			}
			if _, err := tx.Exec(`INSERT INTO value VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, w.Key, w.Value); err != nil {
				return err
			}
			answers[i] = w.Value
		}
		return nil
	})
	if err != nil {
		return slices.Repeat([]any{ApplyError{err}}, len(commands))
	}
	for _, c := range commands {
		var w write
		json.Unmarshal(c.Data, &w)
		r.values[w.Key], r.applied, b.last = w.Value, c.Index, c.Index
	}
	return answers
}

func (b *batched) setStops(stops bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops = stops
}

// alone creates a cluster of one node with a batched register behind a gate.
func alone(t *testing.T) (*fleet, *Node, *batched) {
	t.Helper()
	f, b := newFleet(t), &batched{gate: make(chan struct{})}
	n := f.start(1, func(o *Options) {
		b.register = o.Machine.(*register)
		o.Machine = b
	}).node
	_, err := n.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	return f, n, b
}

// TestBatches applies commands that wait together in one batch, in order, and orders to the
// cluster between them at their positions.
func TestBatches(t *testing.T) {
	t.Parallel()
	_, n, b := alone(t)
	leadership, err := n.Lead(within(t, suite.HangLimit))
	must(t, err)
	var waits []func(context.Context) (any, error)
	var invited sync.WaitGroup
	for i := range 200 {
		waits = append(waits, leadership.Begin(write{fmt.Sprint("k", i%7), fmt.Sprint(i)}.encode()))
		if i == 100 {
			invited.Go(func() {
				if _, err := n.AddNode(within(t, suite.HangLimit), member(2)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	close(b.gate)
	for i, wait := range waits {
		if answer, err := wait(within(t, suite.HangLimit)); err != nil || answer != fmt.Sprint(i) {
			t.Errorf("command %d is answered %v, %v", i, answer, err)
		}
	}
	invited.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := slices.Max(b.sizes); most < 10 {
		t.Errorf("at most %d of 200 commands were applied at once", most)
	}
	if peers, _ := n.Peers(); len(peers) != 1 || b.get("k3") != "199" {
		t.Errorf("there are %d peers, and %q is the last value", len(peers), b.get("k3"))
	}
}

// TestBatchStops suspends the node of a machine that cannot apply a batch; when it is resumed the
// machine applies all of it, once.
func TestBatchStops(t *testing.T) {
	t.Parallel()
	_, n, b := alone(t)
	b.setStops(true)
	leadership, err := n.Lead(within(t, suite.HangLimit))
	must(t, err)
	var waits []func(context.Context) (any, error)
	for i := range 50 {
		value := fmt.Sprint(i)
		if i == 30 {
			value = "stop"
		}
		waits = append(waits, leadership.Begin(write{fmt.Sprint("k", i), value}.encode()))
	}
	close(b.gate)
	if _, err := waits[49](within(t, suite.HangLimit)); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("got %v, want %v", err, ErrUnconfirmed)
	}
	eventually(t, func() error {
		if st := n.Status(); st.State != StateUnavailable {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
	b.setStops(false)
	eventually(t, func() error {
		if got := len(b.all()); got != 50 || b.get("k30") != "stop" {
			return fmt.Errorf("it holds %d values", got)
		}
		return nil
	})
}
