package bridges

import (
	"errors"
	"sync"
	"sync/atomic"

	"signalbox/broker/messaging"
)

// errClosed is the error for a message that arrives while its queue is not open.
var errClosed = errors.New("the queue of the bridge is not open")

// tap receives the messages of a filter for a link.
type tap struct {
	link   *link
	filter string
	cancel func()    // set before any close
	once   sync.Once // guards the call of cancel
}

// Keeps returns true: a bridge loses no acknowledged message.
func (*tap) Keeps() bool { return true }

// Take puts a message into the queue, once for each topic mapping that matches.
func (in *tap) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	l := in.link
	p := l.plan.Load()
	o := p.find(in)
	var buffer [8]*route
	routes := buffer[:0]
	if o != nil && m.Topic != "" && m.Topic[0] != '$' && p.mustTake(o, m.Topic, m.At) {
		for _, r := range o.routes {
			if r.matchesTopic(m.Topic) {
				routes = append(routes, r)
			}
		}
	}
	if len(routes) == 0 {
		if notifier != nil {
			notifier.Committed(nil)
		}
		return
	}
	settle := shared(notifier, len(routes))
	for _, r := range routes {
		e := Entry{Mapping: r.mapping, Message: m}
		if r.accepts(&e.Message) {
			l.enqueue(e, settle)
			continue
		}
		l.skipped.Add(1)
		if settle != nil {
			settle(nil)
		}
	}
}

// shared returns a callback for each of n entries, which acknowledges the message after the last;
// nil without a notifier.
func shared(notifier messaging.CommitNotifier, n int) func(error) {
	switch {
	case notifier == nil:
		return nil
	case n == 1:
		return notifier.Committed
	}
	var left atomic.Int64
	var failed atomic.Pointer[error]
	left.Store(int64(n))
	return func(err error) {
		if err != nil {
			failed.Store(&err)
		}
		if left.Add(-1) > 0 {
			return
		}
		if e := failed.Load(); e != nil {
			err = *e
		}
		notifier.Committed(err)
	}
}
