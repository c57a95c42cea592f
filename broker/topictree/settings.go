package topictree

import (
	"slices"
	"strings"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/dynsec"
)

const (
	controlPrefix = "$CONTROL/"
	sharePrefix   = "$share/"
)

// tracks reports whether a topic is to be tracked: if there are filters, a
// topic that one of them matches; otherwise one that "#" matches, so none that
// begins with $ [MQTT-4.7.2-1]. Requests to control APIs are never tracked.
func (s *settings) tracks(topic string) bool {
	if len(s.filters) == 0 {
		return !strings.HasPrefix(topic, "$")
	}
	return !strings.HasPrefix(topic, controlPrefix) && slices.ContainsFunc(s.filters, func(filter string) bool {
		return dynsec.FilterMatches(filter, topic)
	})
}

// covers reports whether a subscription is to be listed. If there are filters,
// one of them must match every topic that the subscription matches.
func (s *settings) covers(subscription string) bool {
	if len(s.filters) == 0 {
		return true
	}
	if group, ok := strings.CutPrefix(subscription, sharePrefix); ok {
		_, subscription, _ = strings.Cut(group, "/")
	}
	return slices.ContainsFunc(s.filters, func(filter string) bool { return dynsec.FilterCovers(filter, subscription) })
}

// TTL is how long a topic stays after its last message.
func (t *Tracker) TTL() time.Duration { return t.settings.Load().ttl }

// SetTTL changes how long a topic stays. With 0 nothing is tracked.
func (t *Tracker) SetTTL(ttl time.Duration) {
	t.change(func(s *settings) { s.ttl = max(ttl, 0) })
	t.Tidy()
}

// Limits returns the limits of the tree.
func (t *Tracker) Limits() control.Limits { return t.settings.Load().limits }

// SetLimits changes the limits. Topics beyond them are removed, those with the
// oldest messages first.
func (t *Tracker) SetLimits(l control.Limits) {
	t.change(func(s *settings) { s.limits = l })
	t.restrict()
}

// Filters returns the filters that restrict what is tracked, in the order in
// which they were added.
func (t *Tracker) Filters() []string { return slices.Clone(t.settings.Load().filters) }

// AddFilter restricts tracking to topics that a filter matches. The first
// filter removes all other topics.
func (t *Tracker) AddFilter(filter string) {
	t.change(func(s *settings) {
		if !slices.Contains(s.filters, filter) {
			s.filters = append(slices.Clip(s.filters), filter)
		}
	})
	t.restrict()
}

// RemoveFilter removes a filter, and reports whether it existed. Without any
// filter every topic is tracked.
func (t *Tracker) RemoveFilter(filter string) (was bool) {
	t.change(func(s *settings) {
		i := slices.Index(s.filters, filter)
		if was = i >= 0; was {
			s.filters = slices.Concat(s.filters[:i], s.filters[i+1:])
		}
	})
	t.restrict()
	return was
}

// ClearFilters removes all filters.
func (t *Tracker) ClearFilters() {
	t.change(func(s *settings) { s.filters = nil })
	t.restrict()
}

// change replaces the settings.
func (t *Tracker) change(edit func(*settings)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := *t.settings.Load()
	edit(&s)
	t.settings.Store(&s)
}

// restrict removes what the settings no longer allow. Publishers read the
// settings with the lock of their shard held, so topics that they add before
// are seen here.
func (t *Tracker) restrict() {
	set := t.settings.Load()
	var kept []aged
	for i := range t.shards {
		kept = append(kept, t.restrictShard(&t.shards[i], set)...)
	}
	over := len(kept) - set.limits.Publish
	if over <= 0 {
		return
	}
	slices.SortFunc(kept, func(a, b aged) int { return a.at.Compare(b.at) })
	for _, a := range kept[:over] {
		s := a.entry.shard
		s.mu.Lock()
		if s.topics[a.entry.topic] == a.entry {
			t.remove(a.entry)
		}
		s.mu.Unlock()
	}
}

// aged is a topic with the time of its last message when it was listed.
type aged struct {
	entry *entry
	at    time.Time
}

// restrictShard applies the settings to the topics of a shard, except the limit
// of their number, and returns those that remain.
func (t *Tracker) restrictShard(s *shard, set *settings) (kept []aged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, e := range s.topics {
		if !set.tracks(topic) {
			t.remove(e)
			continue
		}
		if len(e.payload) > set.limits.Payload {
			e.payload, e.truncated = slices.Clone(e.payload[:set.limits.Payload]), true
		}
		kept = append(kept, aged{e, e.at})
	}
	return kept
}
