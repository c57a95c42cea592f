package bridgestest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// Store is a store in memory. It outlives the engines that use it. All methods are safe for
// concurrent use.
type Store struct {
	mu      sync.Mutex // guards the fields below
	configs map[string]map[string]json.RawMessage
	queues  map[string]*queue
	err     error
	puts    int
}

var _ bridges.Store = (*Store)(nil)

// Fail makes every operation fail, or none if err is nil.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Configs returns the documents of a broker.
func (s *Store) Configs(_ context.Context, brokerID string) (map[string]json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	all := maps.Clone(s.configs[brokerID])
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	return all, nil
}

// PutConfig stores a document.
func (s *Store) PutConfig(_ context.Context, brokerID, bridgeID string, document json.RawMessage, connections []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.puts++
	if s.configs == nil {
		s.configs, s.queues = map[string]map[string]json.RawMessage{}, map[string]*queue{}
	}
	if s.configs[brokerID] == nil {
		s.configs[brokerID] = map[string]json.RawMessage{}
	}
	s.configs[brokerID][bridgeID] = document
	if document == nil {
		delete(s.configs[brokerID], bridgeID)
		connections = nil
	}
	prefix := key(brokerID, bridgeID, "")
	maps.DeleteFunc(s.queues, func(k string, q *queue) bool {
		return len(k) >= len(prefix) && k[:len(prefix)] == prefix && !slices.Contains(connections, k[len(prefix):]) && q.deleted()
	})
	for _, c := range connections {
		if s.queues[prefix+c] == nil {
			s.queues[prefix+c] = &queue{store: s, name: prefix + c, ready: make(chan struct{}, 1)}
		}
	}
	return nil
}

// Puts returns how many documents were stored.
func (s *Store) Puts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

func key(brokerID, bridgeID, connection string) string {
	return fmt.Sprintf("%q%q", brokerID, bridgeID) + connection
}

// Forget deletes everything of a broker.
func (s *Store) Forget(_ context.Context, brokerID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.configs, brokerID)
	prefix := fmt.Sprintf("%q", brokerID)
	maps.DeleteFunc(s.queues, func(k string, _ *queue) bool { return len(k) >= len(prefix) && k[:len(prefix)] == prefix })
	return s.err
}

// Queue returns a queue that PutConfig has created.
func (s *Store) Queue(_ context.Context, brokerID, bridgeID, connection string, b bridges.Bounds) (bridges.Queue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	q := s.queues[key(brokerID, bridgeID, connection)]
	if q == nil {
		return nil, errors.New("there is no such queue")
	}
	return q, q.open(b)
}

// Identity returns the same name for all stores.
func (*Store) Identity() string { return "memory" }

// Err returns the error set by Fail.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// queue is a queue in memory.
type queue struct {
	store *Store
	name  string
	ready chan struct{}

	mu        sync.Mutex // guards the fields below; taken while Store.mu is held, never before it
	opened    bool
	isDeleted bool
	bounds    bridges.Bounds
	last      uint64
	list      []bridges.Entry
	dead      []broker.DeadLetter
	from      map[string]bridges.Entry // of dead letters
	usage     bridges.Usage
}

func (q *queue) open(b bridges.Bounds) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.opened {
		return errors.New("the queue is open already")
	}
	q.opened, q.bounds = true, b
	return nil
}

func (q *queue) deleted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.opened {
		panic("bridgestest: a queue is deleted that is open")
	}
	q.isDeleted = true
	return true
}

// Put adds an entry.
func (q *queue) Put(e bridges.Entry, settle func(error)) {
	err := q.store.Err()
	q.mu.Lock()
	if err == nil && (!q.opened || q.isDeleted) {
		err = errors.New("the queue is closed")
	}
	if err == nil {
		q.add(e)
	}
	q.mu.Unlock()
	if settle != nil {
		go settle(err)
	}
	q.signal()
}

// add adds an entry within the bounds.
func (q *queue) add(e bridges.Entry) {
	full := func() bool {
		return int64(len(q.list)) >= q.bounds.Messages || q.usage.Bytes+int64(e.Size()) > q.bounds.Bytes && len(q.list) > 0
	}
	for full() {
		q.usage.Dropped++
		if !q.bounds.DropOldest {
			return
		}
		q.usage.Bytes -= int64(q.list[0].Size())
		q.list = q.list[1:]
	}
	q.last++
	e.ID, e.MessageID = q.last, q.name+strconv.FormatUint(q.last, 10)
	q.list = append(q.list, e)
	q.usage.Bytes += int64(e.Size())
}

func (q *queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Peek returns entries.
func (q *queue) Peek(ctx context.Context, after uint64, messages, bytes int) ([]*bridges.Entry, error) {
	if err := errors.Join(ctx.Err(), q.store.Err()); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []*bridges.Entry
	for _, e := range q.list {
		if e.ID <= after {
			continue
		}
		if bytes -= e.Size(); len(list) == messages || bytes < 0 && len(list) > 0 {
			break
		}
		list = append(list, &e)
	}
	return list, nil
}

// Ready returns a channel that receives when entries were added.
func (q *queue) Ready() <-chan struct{} { return q.ready }

// Remove removes entries.
func (q *queue) Remove(ids []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(ids)
}

func (q *queue) remove(ids []uint64) {
	q.list = slices.DeleteFunc(slices.Clone(q.list), func(e bridges.Entry) bool {
		gone := slices.Contains(ids, e.ID)
		if gone {
			q.usage.Bytes -= int64(e.Size())
		}
		return gone
	})
}

// SetBounds changes the bounds.
func (q *queue) SetBounds(b bridges.Bounds) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bounds = b
}

// Usage returns what is stored.
func (q *queue) Usage() bridges.Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.usage
	u.Messages, u.DeadLetters = int64(len(q.list)), int64(len(q.dead))
	return u
}

// Close closes the queue.
func (q *queue) Close(context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opened = false
	return nil
}
