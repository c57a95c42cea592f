package streams

import (
	"errors"
	"sync"

	"signalbox/broker/messaging"
)

// errFull is why a message was dropped: it could not be queued.
var errFull = errors.New("the stream's queue is full")

// item is a queued message.
type item struct {
	messaging.Message
	notifier messaging.CommitNotifier // nil for none
}

// queue holds the messages that a stream has taken and not processed yet. Its
// number and bytes are limited; beyond that the newest message is dropped. The
// limits are twice as high for messages with a notifier: how many of these
// there are is limited by their sources, which wait.
type queue struct {
	messages int
	bytes    int
	work     sync.WaitGroup // the worker, if there is one

	mu     sync.Mutex // guards the fields below
	list   []item
	size   int
	buffer *[]item // of list, from lists; not nil while there is a worker, which checks the queue once more before it ends
	closed bool
}

// lists are buffers that no queue uses: an idle stream has none.
var lists = sync.Pool{New: func() any { return new([]item) }}

// put adds a message. It reports whether the message was taken, and whether the
// caller must start a worker, which calls work.Done at its end.
func (q *queue) put(m messaging.Message, notifier messaging.CommitNotifier) (taken, wake bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	factor := 1
	if notifier != nil {
		factor = 2
	}
	if q.closed || len(q.list) >= factor*q.messages || q.size+m.Size() > factor*q.bytes && len(q.list) > 0 {
		return false, false
	}
	if wake = q.buffer == nil; wake {
		q.buffer = lists.Get().(*[]item) //nolint:forcetypeassert // it has no other type
		q.list = *q.buffer
		q.work.Add(1) // here, so that no Wait has returned before the worker starts
	}
	q.list = append(q.list, item{m, notifier})
	q.size += m.Size()
	return true, wake
}

// take returns all queued messages, and uses the list reuse for the next ones.
// If there are none, it reports false and the worker must end.
func (q *queue) take(reuse []item) (list []item, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		if q.buffer != nil {
			*q.buffer = q.list
			lists.Put(q.buffer)
		}
		q.list, q.buffer = nil, nil
		return nil, false
	}
	list = q.list
	q.list, q.size = reuse[:0], 0
	return list, true
}

// close refuses messages from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
