package bridges

import (
	"time"

	"signalbox/broker/messaging"
)

// takeRetained queues retained messages for new routes, if the connector wants them.
func (l *link) takeRetained(connector Connector, added []route) {
	selective, ok := connector.(Selective)
	if !ok || !l.takesRetained() {
		return
	}
	for _, r := range added {
		if selective.Retained(r.mapping) {
			l.tasks.Go(func() { l.queueRetained(r) })
		}
	}
}

// takesRetained reports whether this node takes retained messages: of a broker that is not in this process, only the node
// that takes its other messages.
func (l *link) takesRetained() bool {
	b, ok := l.engine.local.(messaging.ServingBroker)
	_, inProcess := b.(messaging.StoringBroker)
	return !ok || inProcess || messaging.IsServing(b)
}

// queueRetained queues the retained messages of a route, each once. It retries while the broker
// cannot be asked, until the link ends or its queue is closed.
func (l *link) queueRetained(r route) {
	taken := map[string]bool{}
	for _, filter := range r.filters {
		for {
			err := l.queueMatching(filter, &r, taken)
			if err == nil {
				break
			}
			l.log.Debug("what the broker retains could not be read; trying again", "filter", filter, "error", err)
			if !messaging.Sleep(l.linkCtx, openRetryDelay) {
				return
			}
		}
	}
}

// queueMatching queues retained messages that match a filter and were not taken before. At most
// seedWindow of them wait to be stored: the queue has no other bound for messages that arrive
// faster than they are stored.
func (l *link) queueMatching(filter string, r *route, taken map[string]bool) error {
	slots := make(chan struct{}, seedWindow)
	for m, err := range l.engine.local.Retained(l.linkCtx, filter) {
		switch {
		case err != nil:
			return err
		case taken[m.Topic] || m.Topic == "" || m.Topic[0] == '$':
			continue
		}
		e := entryOf(r.mapping, m)
		if !r.accepts(&e.Message) {
			l.skipped.Add(1)
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-l.linkCtx.Done():
			return nil
		}
		taken[m.Topic] = true
		l.enqueue(e, func(error) { <-slots })
	}
	return nil
}

// entryOf returns the entry of a retained message.
func entryOf(mapping string, m messaging.Message) Entry {
	m.Retain = true
	if m.At == 0 {
		m.At = time.Now().UnixMilli()
	}
	return Entry{Mapping: mapping, Message: m}
}
