package backlog

import (
	"context"
	"errors"
	"sync"
)

// An id is the number of a node and that of a message.
const (
	nodeShift = 47
	maxNumber = 1<<nodeShift - 1
)

func (q *Queue) id(number uint64) int64 { return q.node<<nodeShift | int64(number) }

// Queue is the messages that wait for one node, numbered in ascending order, and the filters
// that its clients have subscribed to. All methods are safe for concurrent use.
type Queue struct {
	store *Store
	node  int64

	mu      sync.Mutex // guards what follows; a leaf lock, held briefly
	first   uint64     // number of the first in sizes
	sizes   []uint32   // in bytes, 0 for a number without a message
	settled uint64     // messages up to this number are stored or were refused
	totals  Totals

	generation uint64 // of the node
	begun      bool   // it is stored, or about to be
	cleared    bool   // what was stored when the file was opened is deleted, or about to be
}

// Totals is what waits for a node, including what is being stored.
type Totals struct{ Messages, Bytes int64 }

// ErrBusy means that too much is being stored already, and ErrClosed that the store is closed.
var (
	ErrBusy   = errors.New("the disk is too slow for the messages to another node")
	ErrClosed = errors.New("the store of messages for other nodes is closed")
)

// Totals returns what waits.
func (q *Queue) Totals() Totals {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.totals
}

// Last returns the number of the last message that was put, 0 for none.
func (q *Queue) Last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last()
}

func (q *Queue) last() uint64 { return q.first + uint64(len(q.sizes)) - 1 }

// restore adds a message that is stored.
func (q *Queue) restore(number uint64, size int64) {
	if len(q.sizes) == 0 {
		q.first = number
	}
	for q.last()+1 < number {
		q.sizes = append(q.sizes, 0)
	}
	q.append(size)
	q.settled = number
}

func (q *Queue) append(size int64) (number uint64) {
	q.sizes = append(q.sizes, uint32(size)) //nolint:gosec // a message has at most 256 MiB
	q.totals.Messages++
	q.totals.Bytes += size
	return q.last()
}

// Put appends a message, and calls done when it is on the disk, or cannot be stored. It does not
// wait. data must not be empty. With an error done is not called.
func (q *Queue) Put(data []byte, done func(error)) (number uint64, err error) {
	if err := q.store.commits.Err(); err != nil {
		return 0, err
	}
	if q.store.commits.Full() {
		return 0, ErrBusy
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	number = q.append(int64(len(data)))
	if !q.store.submit(&entry{kind: kindPut, queue: q, number: number, data: data, done: done}) {
		q.drop(number)
		return 0, ErrClosed
	}
	return number, nil
}

// drop removes the size of a message that is not stored. mu is held.
func (q *Queue) drop(number uint64) {
	if number < q.first {
		return
	}
	size := &q.sizes[number-q.first]
	if *size != 0 {
		q.totals.Messages--
		q.totals.Bytes -= int64(*size)
	}
	*size = 0
}

// settle records the outcome of a message.
func (q *Queue) settle(number uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled = number
	if err != nil {
		q.drop(number)
	}
}

// Waits reports whether a message up to a number waits.
func (q *Queue) Waits(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n := q.first; n <= min(number, q.last()); n++ {
		if q.sizes[n-q.first] != 0 {
			return true
		}
	}
	return false
}

// Remove deletes the messages up to a number, soon. It does not wait.
func (q *Queue) Remove(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	number = min(number, q.last())
	if number < q.first {
		return
	}
	for n := q.first; n <= number; n++ {
		q.drop(n)
	}
	q.sizes, q.first = q.sizes[number+1-q.first:], number+1
	q.store.submit(&entry{kind: kindRemove, queue: q, number: number})
}

// Begin makes the queue that of a node in a generation, which grows whenever the node is added to
// the cluster. What is stored for an older one is deleted, and returned. What is stored for a newer
// one stays: the caller does not know of that yet.
func (q *Queue) Begin(generation uint64) (deleted Totals) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.begun && q.generation >= generation {
		return deleted
	}
	deleted = q.clear()
	q.generation, q.begun = generation, true
	q.store.submit(&entry{kind: kindBegin, queue: q, number: generation})
	return deleted
}

// End deletes all messages and filters, soon, of a node that was removed from the cluster in a
// generation. What is stored for a newer one stays.
func (q *Queue) End(generation uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.begun && q.generation <= generation {
		q.clear()
	}
}

// Has reports whether what is stored is for a generation of the node, or an older one.
func (q *Queue) Has(generation uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun && q.generation <= generation
}

// clear deletes all messages and filters. mu is held.
func (q *Queue) clear() Totals {
	before := q.totals
	q.first, q.sizes, q.totals, q.begun, q.cleared = q.last()+1, nil, Totals{}, false, true
	q.store.submit(&entry{kind: kindClear, queue: q, number: q.first - 1})
	return before
}

// Message is a stored message.
type Message struct {
	Number uint64
	Data   []byte
}

// Read returns messages behind a number, in order, of about size bytes together but at least one if
// there is any, and the number up to which these are all.
func (q *Queue) Read(ctx context.Context, after uint64, size int) (messages []Message, upTo uint64, err error) {
	q.mu.Lock()
	upTo = q.settled
	q.mu.Unlock()
	if upTo <= after {
		return nil, after, nil
	}
	var m Message
	var id int64
	err = q.store.each(ctx, func() bool {
		m.Number = uint64(id) & maxNumber
		messages = append(messages, m)
		size -= len(m.Data)
		m.Data = nil
		return size > 0
	}, []any{&id, &m.Data}, `SELECT id, data FROM message WHERE id > ? AND id <= ? ORDER BY id`, q.id(after), q.id(upTo))
	switch {
	case err != nil:
		return nil, after, err
	case size <= 0:
		upTo = m.Number
	}
	return messages, upTo, nil
}
