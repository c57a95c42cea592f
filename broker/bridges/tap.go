package bridges

import (
	"errors"
	"sync"
	"sync/atomic"

	"signalbox/broker/messaging"
)

// errClosed is why a message is refused that came while its queue was not open.
var errClosed = errors.New("the queue of the bridge is not open")

// tap takes the messages of a filter for a link.
type tap struct {
	link   *link
	filter string
	cancel func()    // set before anybody closes it
	once   sync.Once // guards the calling of cancel
}

// Keeps is always so: a bridge loses nothing that was acknowledged.
func (*tap) Keeps() bool { return true }

// Take puts a message into the queue, once for each topic mapping that takes it.
func (in *tap) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	l := in.link
	p := l.plan.Load()
	o := p.opening(in)
	var room [8]*route
	routes := room[:0]
	if o != nil && m.Topic != "" && m.Topic[0] != '$' && p.responsible(o, m.Topic, m.At) {
		for _, r := range o.routes {
			if r.takes(m.Topic) {
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
		if r.admits(&e.Message) {
			l.put(e, settle)
			continue
		}
		l.skipped.Add(1)
		if settle != nil {
			settle(nil)
		}
	}
}

// shared gives what is called for each of n entries, and settles a message with
// the last; nil where nobody waits.
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
