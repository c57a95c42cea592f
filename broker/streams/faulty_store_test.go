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

// faultyStore is a store whose operations can be made to fail or to wait.
// Others are those of the real store.
type faultyStore struct {
	streams.Store
	mu   sync.Mutex // guards hook
	hook map[string]func() error
}

// on makes an operation call f first, whose error it returns; nil removes f.
func (s *faultyStore) on(op string, f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook == nil {
		s.hook = map[string]func() error{}
	}
	s.hook[op] = f
}

// fails makes an operation fail until on is called.
func (s *faultyStore) fails(op string) { s.on(op, func() error { return errDisk }) }

func (s *faultyStore) run(op string) error {
	s.mu.Lock()
	f := s.hook[op]
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

func (s *faultyStore) Definitions(ctx context.Context, brokerID string) ([]streams.Definition, error) {
	if err := s.run("definitions"); err != nil {
		return nil, err
	}
	return s.Store.Definitions(ctx, brokerID)
}

func (s *faultyStore) Put(ctx context.Context, brokerID string, d streams.Definition) (int64, error) {
	if err := s.run("put"); err != nil {
		return 0, err
	}
	return s.Store.Put(ctx, brokerID, d)
}

func (s *faultyStore) Delete(ctx context.Context, id int64) error {
	if err := s.run("delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, id)
}

func (s *faultyStore) Open(ctx context.Context, id int64) (streams.Log, error) {
	if err := s.run("open"); err != nil {
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
	store *faultyStore
}

func (l faultyLog) State(ctx context.Context) ([]byte, error) {
	if err := l.store.run("state"); err != nil {
		return nil, err
	}
	return l.Log.State(ctx)
}

func (l faultyLog) Append(ctx context.Context, messages []messaging.Message, state []byte, committed func(error)) error {
	if err := l.store.run("append"); err != nil {
		return err
	}
	if err := l.store.run("commit"); err != nil { // in order, as the real one
		return l.Log.Append(ctx, nil, nil, func(error) { committed(err) })
	}
	return l.Log.Append(ctx, messages, state, func(err error) {
		l.store.run("committed") //nolint:errcheck // it only waits
		committed(err)
	})
}

func (l faultyLog) Count(ctx context.Context, r streams.Range) (int64, error) {
	if err := l.store.run("count"); err != nil {
		return 0, err
	}
	return l.Log.Count(ctx, r)
}
