package streams_test

import (
	"context"
	"errors"
	"sync"

	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// errDisk is what a faulty store fails with.
var errDisk = errors.New("the disk is full")

// faulty is a store of which parts can be had to fail or to wait. What is not
// set is the real one's.
type faulty struct {
	streams.Store
	mu   sync.Mutex // guards hook
	hook map[string]func() error
}

// on has an operation call f first, which fails it with an error; nil for not.
func (s *faulty) on(op string, f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook == nil {
		s.hook = map[string]func() error{}
	}
	s.hook[op] = f
}

// fails has an operation fail until it is told otherwise.
func (s *faulty) fails(op string) { s.on(op, func() error { return errDisk }) }

func (s *faulty) first(op string) error {
	s.mu.Lock()
	f := s.hook[op]
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

func (s *faulty) Definitions(ctx context.Context, brokerID string) ([]streams.Definition, error) {
	if err := s.first("definitions"); err != nil {
		return nil, err
	}
	return s.Store.Definitions(ctx, brokerID)
}

func (s *faulty) Put(ctx context.Context, brokerID string, d streams.Definition) (int64, error) {
	if err := s.first("put"); err != nil {
		return 0, err
	}
	return s.Store.Put(ctx, brokerID, d)
}

func (s *faulty) Delete(ctx context.Context, id int64) error {
	if err := s.first("delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, id)
}

func (s *faulty) Open(ctx context.Context, id int64) (streams.Log, error) {
	if err := s.first("open"); err != nil {
		return nil, err
	}
	l, err := s.Store.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	return faultyLog{l, s}, nil
}

// faultyLog is a log of a faulty store.
type faultyLog struct {
	streams.Log
	store *faulty
}

func (l faultyLog) State(ctx context.Context) ([]byte, error) {
	if err := l.store.first("state"); err != nil {
		return nil, err
	}
	return l.Log.State(ctx)
}

func (l faultyLog) Append(ctx context.Context, messages []messaging.Message, state []byte, settle func(error)) error {
	if err := l.store.first("append"); err != nil {
		return err
	}
	if err := l.store.first("commit"); err != nil { // in its turn, as the real one
		return l.Log.Append(ctx, nil, nil, func(error) { settle(err) })
	}
	return l.Log.Append(ctx, messages, state, func(err error) {
		l.store.first("settle") //nolint:errcheck // it only waits
		settle(err)
	})
}

func (l faultyLog) Count(ctx context.Context, r streams.Range) (int64, error) {
	if err := l.store.first("count"); err != nil {
		return 0, err
	}
	return l.Log.Count(ctx, r)
}
