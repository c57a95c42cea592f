package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// change returns a change with a number, which stands for its contents.
func change(number uint64) *engine.Changes {
	return &engine.Changes{EndedSessions: []uint64{number}}
}

// sized returns a change of about as many bytes.
func sized(number uint64, size int) *engine.Changes {
	c := change(number)
	c.Messages = []*engine.Message{{Payload: make([]byte, size)}}
	return c
}

// retained returns a change to a retained message with a number.
func retained(number uint64) *engine.Changes {
	return &engine.Changes{Retained: []engine.RetainedRecord{{Topic: "a", Message: &engine.Message{ID: number}}}}
}

// numberOf returns the number of a change.
func numberOf(c *engine.Changes) uint64 {
	switch {
	case len(c.EndedSessions) > 0:
		return c.EndedSessions[0]
	case len(c.Retained) > 0:
		return c.Retained[0].Message.ID
	}
	return 0 // the change by which drain waits for the store
}

// encode encodes each change as its number, its size and as many bytes.
func encode(dst []byte, group []*engine.Changes) []byte {
	for _, c := range group {
		size := 0
		for _, m := range c.Messages {
			size += len(m.Payload)
		}
		dst = binary.AppendUvarint(dst, numberOf(c))
		dst = binary.AppendUvarint(dst, uint64(size))
		dst = append(dst, make([]byte, size)...)
	}
	return dst
}

var errDamaged = errors.New("damaged")

func decode(b []byte) (group []*engine.Changes, err error) {
	for len(b) > 0 {
		number, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errDamaged
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errDamaged
		}
		group, b = append(group, sized(number, int(size))), b[n+m+int(size):]
	}
	return group, nil
}

// numbers returns the numbers of the changes in a command.
func numbers(t testing.TB, command []byte) (all []uint64) {
	t.Helper()
	group, err := decode(command)
	must(t, err)
	for _, c := range group {
		all = append(all, numberOf(c))
	}
	return all
}

// local is a store that records its changes, and who submitted them.
type local struct {
	*discarding
	mu        sync.Mutex
	submitted []uint64 // by the engine
	applied   []uint64 // by the cluster
	index     uint64
	failure   error // with which it refuses changes that are not owed
}

func newLocal(t testing.TB) *local {
	l := &local{discarding: newDiscarding(nil)}
	l.start()
	t.Cleanup(l.end)
	return l
}

func (l *local) Load(context.Context) (*engine.Snapshot, error) {
	return &engine.Snapshot{LastMessageID: 1}, nil
}

func (l *local) Err() error { return nil }

func (l *local) Messages(context.Context, []uint64) ([]*engine.Message, error) { return nil, nil }

func (l *local) Submit(c *engine.Changes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := numberOf(c); n != 0 {
		l.submitted = append(l.submitted, n)
	}
	if l.failure != nil && !c.Owed {
		c = &engine.Changes{Done: refusal{c, l.failure}}
	}
	l.discarding.Submit(c)
}

// refusal is a CommitNotifier that reports an error instead of the outcome.
type refusal struct {
	changes *engine.Changes
	err     error
}

func (r refusal) Committed(*engine.Changes, error) { r.changes.Done.Committed(r.changes, r.err) }

// fail makes the store refuse changes, or accept them again if err is nil.
func (l *local) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

func (l *local) Apply(index uint64, group []*engine.Changes) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range group {
		l.applied = append(l.applied, numberOf(c))
	}
	l.index = index
	return nil
}

func (l *local) Close(context.Context) error { return nil }

// kept returns the changes of the store.
func (l *local) kept() (submitted, applied []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.submitted), slices.Clone(l.applied)
}

// open returns a Store in front of a local one. The end of the test closes it.
func open(t testing.TB) (*Store, *local) {
	t.Helper()
	l := newLocal(t)
	s := Open(Options{Local: l, Encode: encode, Decode: decode})
	t.Cleanup(func() { must(t, s.Close(context.Background())) })
	return s, l
}

// lead makes a store lead.
func lead(t testing.TB, s *Store, begin Proposer) (lost <-chan struct{}) {
	t.Helper()
	lost, err := s.Lead(t.Context(), begin)
	must(t, err)
	return lost
}

// submit submits changes and returns a channel with their outcome.
func submit(s *Store, c *engine.Changes) outcome {
	r := make(outcome, 1)
	c.Done = r
	s.Submit(c)
	return r
}

// journal is a CommitNotifier that records outcomes, in order.
type journal struct {
	mu      sync.Mutex
	settled []uint64
	errs    []error
	more    chan struct{} // holds one entry when an outcome was recorded
}

func newJournal() *journal { return &journal{more: make(chan struct{}, 1)} }

func (j *journal) Committed(c *engine.Changes, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.settled, j.errs = append(j.settled, numberOf(c)), append(j.errs, err)
	select {
	case j.more <- struct{}{}:
	default:
	}
}

// wait waits until the outcomes of as many changes are recorded.
func (j *journal) wait(n int) (settled []uint64, errs []error) {
	for {
		if settled, errs, ok := j.first(n); ok {
			return settled, errs
		}
		<-j.more
	}
}

// first returns the recorded outcomes if there are at least as many.
func (j *journal) first(n int) (settled []uint64, errs []error, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.settled) < n {
		return nil, nil, false
	}
	return j.settled[:len(j.settled):len(j.settled)], j.errs[:len(j.errs):len(j.errs)], true
}

// count returns changes with the numbers from first to last.
func (j *journal) count(s *Store, first, last uint64) {
	for n := first; n <= last; n++ {
		c := change(n)
		c.Done = j
		s.Submit(c)
	}
}

// upTo returns the numbers from first to last.
func upTo(first, last uint64) (all []uint64) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// consensus commits at once, except after hold.
type consensus struct {
	store *Store

	mu       sync.Mutex
	index    uint64
	held     chan struct{} // nil while it commits at once
	commands [][]byte
	failAt   int // the command that fails, and all after it; 0 for none
	now, max int // commands in flight
}

var errLost = errors.New("the leadership is lost")

func (c *consensus) Begin(command []byte) func(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = append(c.commands, command)
	number, held := len(c.commands), c.held
	c.now++
	c.max = max(c.max, c.now)
	return func(ctx context.Context) error { return c.wait(ctx, number, held, command) }
}

func (c *consensus) wait(ctx context.Context, number int, held chan struct{}, command []byte) error {
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	if c.failAt > 0 && number >= c.failAt {
		return errLost
	}
	c.index++
	return c.store.Apply(c.index, command)
}

// hold makes commands wait until release is called.
func (c *consensus) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	}
}

// begun returns the commands that were proposed.
func (c *consensus) begun() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.commands)
}
