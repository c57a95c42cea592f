package topictree

import (
	"iter"
	"slices"
	"unicode/utf8"

	"signalbox/broker"
)

// Page returns a part of both lists, sorted; a count of -1 is for all. The cost
// of the first list does not depend on the offset; the second is iterated from
// the start.
func (t *Tracker) Page(offset, count int) broker.TopicTree {
	t.markRequested()
	w := window{max(offset, 0), count}
	return broker.TopicTree{PublishTopics: t.published(w), SubscribeTopics: t.subscribed(w)}
}

// Counts returns the number of topics and of subscribed filters.
func (t *Tracker) Counts() (publish, subscribe int) {
	t.markRequested()
	return int(t.index.size.Load()), t.subscribed(window{}).Count
}

// Names yields the topics that were published to, sorted. It is no request: it neither
// removes expired topics nor keeps the tracker watched.
func (t *Tracker) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.index.snapshot().Scan(func(topic string, _ *entry) bool { return yield(topic) })
	}
}

// Select yields the selected topics, sorted.
func (t *Tracker) Select(s broker.TopicSelection) iter.Seq[broker.KnownTopic] {
	t.markRequested()
	return func(yield func(broker.KnownTopic) bool) {
		all := t.index.snapshot()
		for _, name := range s.Names {
			if e, ok := all.Get(name); ok && !yield(broker.KnownTopic{Name: name, TopicState: e}) {
				return
			}
		}
		if s.Names != nil {
			return
		}
		all.Ascend(s.Prefix, func(topic string, e *entry) bool {
			return s.Has(topic) && yield(broker.KnownTopic{Name: topic, TopicState: e})
		})
	}
}

// window is a part of a list. A negative count means all from offset on.
type window struct{ offset, count int }

// size returns how many entries of a list are in the window.
func (w window) size(total int) int {
	n := max(total-w.offset, 0)
	if w.count >= 0 {
		n = min(n, w.count)
	}
	return n
}

// published returns the topics that were published to.
func (t *Tracker) published(w window) broker.PublishTopics {
	all := t.index.snapshot()
	n := w.size(all.Len())
	list := broker.PublishTopics{Count: all.Len(), Topics: make([]string, 0, n), Data: make([]broker.PublishTopic, 0, n)}
	if n == 0 {
		return list
	}
	first, _, _ := all.GetAt(w.offset)
	all.Ascend(first, func(topic string, e *entry) bool {
		list.Topics, list.Data = append(list.Topics, topic), append(list.Data, e.Last())
		return len(list.Data) < n
	})
	return list
}

// Last returns the topic with its latest message. Payloads are encoded without the
// lock.
func (e *entry) Last() broker.PublishTopic {
	e.shard.mu.Lock()
	payload, cut := slices.Clone(e.payload), e.truncated
	p := broker.PublishTopic{
		Topic: e.topic, QoS: int(e.qos), Retain: e.retain, LastModified: e.at.UnixMilli(), Messages: e.messages,
	}
	e.shard.mu.Unlock()
	if cut {
		payload = trimPartialRune(payload)
	}
	p.Payload, p.Encoding, _ = broker.ShowPayload(payload, -1)
	return p
}

// trimPartialRune removes an incomplete character at the end of what otherwise
// is text.
func trimPartialRune(p []byte) []byte {
	for i := len(p) - 1; i >= max(len(p)-utf8.UTFMax, 0); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) && utf8.Valid(p[:i]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// subscribed returns the subscribed filters.
func (t *Tracker) subscribed(w window) broker.SubscribeTopics {
	list := broker.SubscribeTopics{Topics: []string{}, Data: []broker.SubscribeTopic{}}
	if t.subscriptions == nil {
		return list
	}
	set := t.settings.Load()
	for filter, clients := range t.subscriptions() {
		if list.Count == set.limits.Subscribe {
			break
		}
		if !set.covers(filter) {
			continue
		}
		if list.Count >= w.offset && (w.count < 0 || len(list.Data) < w.count) {
			list.Topics = append(list.Topics, filter)
			list.Data = append(list.Data, broker.SubscribeTopic{Topic: filter, Clients: clients})
		}
		list.Count++
	}
	return list
}

// NotTracked returns how many messages since the start were not tracked because
// their topics exceeded a limit. Messages that the filters exclude, or that
// arrive while the tree is not watched, do not count.
func (t *Tracker) NotTracked() (messages int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		messages += s.notTracked
		s.mu.Unlock()
	}
	return messages
}

// Grouped counts adjacent equal filters: it converts the sorted filters of all
// subscriptions to what Options.Subscriptions must return.
func Grouped(filters iter.Seq[string]) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		last, n := "", 0
		for filter := range filters {
			if n > 0 && filter != last {
				if !yield(last, n) {
					return
				}
				n = 0
			}
			last, n = filter, n+1
		}
		if n > 0 {
			yield(last, n)
		}
	}
}
