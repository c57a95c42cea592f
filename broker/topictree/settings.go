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

// wants tells whether a topic is to be tracked: where there are filters, one that
// matches; otherwise one that "#" would match, so none that begins with $
// [MQTT-4.7.2-1]. Requests to control APIs never are.
func (s *settings) wants(topic string) bool {
	if len(s.filters) == 0 {
		return !strings.HasPrefix(topic, "$")
	}
	return !strings.HasPrefix(topic, controlPrefix) && slices.ContainsFunc(s.filters, func(filter string) bool {
		return dynsec.FilterMatches(filter, topic)
	})
}

// covers tells whether a subscription is to be listed: where there are filters,
// one by which no more comes than by one of them.
func (s *settings) covers(subscription string) bool {
	if len(s.filters) == 0 {
		return true
	}
	if group, ok := strings.CutPrefix(subscription, sharePrefix); ok {
		_, subscription, _ = strings.Cut(group, "/")
	}
	return slices.ContainsFunc(s.filters, func(filter string) bool { return dynsec.FilterCovers(filter, subscription) })
}

// TTL is for how long a topic stays after its last message.
func (t *Tracker) TTL() time.Duration { return t.settings.Load().ttl }

// SetTTL changes for how long a topic stays. With 0 nothing is tracked.
func (t *Tracker) SetTTL(ttl time.Duration) {
	t.change(func(s *settings) { s.ttl = max(ttl, 0) })
	t.Tidy()
}

// Limits gives the bounds of what is kept.
func (t *Tracker) Limits() control.Limits { return t.settings.Load().limits }

// SetLimits changes the bounds. Topics beyond them are let go of, those without
// a message for longest first.
func (t *Tracker) SetLimits(l control.Limits) {
	t.change(func(s *settings) { s.limits = l })
	t.restrict()
}

// Filters gives the filters that narrow what is tracked, in the order in which
// they were added.
func (t *Tracker) Filters() []string { return slices.Clone(t.settings.Load().filters) }

// AddFilter has topics tracked that match a filter. The first one has all others
// let go of.
func (t *Tracker) AddFilter(filter string) {
	t.change(func(s *settings) {
		if !slices.Contains(s.filters, filter) {
			s.filters = append(slices.Clip(s.filters), filter)
		}
	})
	t.restrict()
}

// RemoveFilter takes a filter back, and tells whether it was there. With the
// last one gone, every topic is tracked again.
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

// ClearFilters takes all filters back.
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

// restrict lets go of what the settings do not allow any more. Publishers read
// them with their shard's lock held: what they add before is seen here.
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

// aged is a topic with the time of its last message, as it was.
type aged struct {
	entry *entry
	at    time.Time
}

// restrictShard does it for the topics of a shard, but for their number, and
// gives those that stay.
func (t *Tracker) restrictShard(s *shard, set *settings) (kept []aged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, e := range s.topics {
		if !set.wants(topic) {
			t.remove(e)
			continue
		}
		if len(e.payload) > set.limits.Payload {
			e.payload, e.cut = slices.Clone(e.payload[:set.limits.Payload]), true
		}
		kept = append(kept, aged{e, e.at})
	}
	return kept
}
