package streams

import (
	"errors"
	"sync"

	"signalbox/broker/messaging"
)

// errFull is why a message was lost that could not be queued any more.
var errFull = errors.New("the stream's queue is full")

// item is a message that waits for its stream.
type item struct {
	messaging.Message
	notifier messaging.CommitNotifier // nil for none
}

// queue holds the messages that a stream has taken and not looked at. It is
// bounded by their number and bytes; the newest loses. Those whose source waits
// for them have as much room again: what bounds them is that it waits.
type queue struct {
	messages int
	bytes    int
	work     sync.WaitGroup // whoever takes out what is there

	mu     sync.Mutex // guards what follows; held for moments only
	list   []item
	size   int
	room   *[]item // from rooms, while somebody takes out what is there, and looks again before resting
	closed bool
}

// rooms is room for lists that no queue uses: a stream that rests has none.
var rooms = sync.Pool{New: func() any { return new([]item) }}

// put adds a message. It tells whether it was taken, and whether somebody has
// to be set to work, who calls work.Done in the end.
func (q *queue) put(m messaging.Message, s messaging.CommitNotifier) (taken, wake bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := 1
	if s != nil {
		room = 2
	}
	if q.closed || len(q.list) >= room*q.messages || q.size+m.Size() > room*q.bytes && len(q.list) > 0 {
		return false, false
	}
	if wake = q.room == nil; wake {
		q.room = rooms.Get().(*[]item) //nolint:forcetypeassert // it has nothing else
		q.list = *q.room
		q.work.Add(1) // here, so that nobody has waited for the end of work already
	}
	q.list = append(q.list, item{m, s})
	q.size += m.Size()
	return true, wake
}

// take gives all that is there, and puts spare in its place for what comes next.
// Where there is nothing, whoever asked is to rest.
func (q *queue) take(spare []item) (list []item, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		if q.room != nil {
			*q.room = q.list
			rooms.Put(q.room)
		}
		q.list, q.room = nil, nil
		return nil, false
	}
	list = q.list
	q.list, q.size = spare[:0], 0
	return list, true
}

// close refuses messages from now on.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}
