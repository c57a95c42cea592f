package handlers

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox/broker"
)

// ListTopicLevelRequest asks for one level of the topic tree.
type ListTopicLevelRequest struct {
	NodePath
	Paging
	Prefix string   `query:"prefix" doc:"Beginning of the topics, which ends with /, such as plant/7/; absent for the first level."`
	Search string   `query:"search" doc:"Only topics that contain this text, without regard to case; then whole topics are listed instead of a level."`
	Topics []string `query:"topic" doc:"Only this topic itself, as an entry with its whole name; up to 10 when it is repeated. prefix and search must be absent."`
}

// maxTopics bounds the topics of one request.
const maxTopics = 10

// Validate checks the prefix and the topics.
func (r *ListTopicLevelRequest) Validate() []FieldError {
	if r.Prefix != "" && !strings.HasSuffix(r.Prefix, "/") {
		return []FieldError{{"query.prefix", "must end with /"}}
	}
	if r.Topics != nil && r.Prefix+r.Search != "" {
		return []FieldError{{"query.topic", "cannot be used with prefix or search"}}
	}
	return checkTopics(r.Topics)
}

// checkTopics checks the topics of a request.
func checkTopics(topics []string) []FieldError {
	if len(topics) > maxTopics {
		return []FieldError{{"query.topic", fmt.Sprintf("must not be given more than %d times", maxTopics)}}
	}
	if slices.Contains(topics, "") {
		return []FieldError{{"query.topic", "must not be empty"}}
	}
	return nil
}

// The bounds of one request: how long it reads the tree, how many topics a search finds, and
// how many entries a level has. A service with a million topics has other work as well.
const (
	levelTime       = time.Second
	maxFound        = 1000
	maxLevelEntries = 100_000
	timeCheck       = 1024 // topics that are read before the time is checked again
)

// TopicLevel is a part of one level of the topic tree.
type TopicLevel struct {
	Prefix  string            `json:"prefix" doc:"Beginning of the listed topics, as requested." example:"plant/7/"`
	Topics  int               `json:"topics" doc:"Number of topics that begin with the prefix and match the search." example:"42"`
	Total   int               `json:"total" doc:"Number of entries before offset and count." example:"2"`
	Cut     bool              `json:"cut" doc:"True if not everything was read: a search ends with its first 1000 topics, a level has at most 100000 entries, and a request reads the tree, once it has it, for at most a second. topics and total then count what was read." example:"false"`
	Entries []TopicLevelEntry `json:"entries" doc:"The entries, in order of their names."`
}

// TopicLevelEntry is an entry of a level: a topic, a branch with topics below it, or both.
type TopicLevelEntry struct {
	Name   string               `json:"name" doc:"Name of the level; with a search, the whole topic." example:"raw"`
	Topic  string               `json:"topic" doc:"Topic of the entry." example:"plant/7/raw"`
	Topics int                  `json:"topics" doc:"Number of topics below the entry." example:"0"`
	Rate   *float64             `json:"rate,omitempty" doc:"Messages a second, lately, of the topic and of those below it, with search or topic of the topic itself: each message counts less the longer ago it was, after 30 seconds 1/e. Absent where the service does not observe the messages itself: in the tree of a remote broker's own plugin, and of other nodes." example:"2.5"`
	Last   *broker.PublishTopic `json:"last,omitempty" doc:"The topic with its latest message. Absent if no message was published to the topic itself."`
}

// ListTopicLevel lists one level of the topic tree. In an HP cluster without a node
// number, the trees of all nodes are merged.
func (a *API) ListTopicLevel(ctx context.Context, r *ListTopicLevelRequest) (TopicLevel, error) {
	b, err := a.topicsOf(ctx, &r.NodePath)
	if err != nil {
		return TopicLevel{}, err
	}
	nodes, err := b.SelectTopics(ctx, r.NodeID, broker.TopicSelection{Prefix: r.Prefix, Names: slices.Compact(slices.Sorted(slices.Values(r.Topics)))})
	if err != nil {
		return TopicLevel{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	level, now := TopicLevel{Prefix: r.Prefix}, a.Now()
	all := level.collect(nodes, topicsWanted{whole: r.Topics != nil || r.Search != "", text: strings.ToLower(r.Search), now: now, ended: func() bool { return ctx.Err() != nil }})
	level.Total = len(all)
	page := all[min(r.Offset, len(all)):]
	if r.Count >= 0 {
		page = page[:min(r.Count, len(page))]
	}
	level.Entries = make([]TopicLevelEntry, 0, len(page))
	for _, e := range page {
		level.Entries = append(level.Entries, e.withState(now))
	}
	return level, nil
}

// levelEntry is an entry whose state is not read yet: few entries are shown.
type levelEntry struct {
	TopicLevelEntry
	states []broker.TopicState // of each node that has the topic
	rate   float64             // of the topics below
	noRate bool                // their rates are not known everywhere
}

// addRate adds the rate of a topic.
func (e *levelEntry) addRate(t broker.TopicState, now time.Time) {
	perSecond, known := t.Rate(now)
	e.rate += perSecond
	e.noRate = e.noRate || !known
}

// withState returns the entry with its rate and its latest message. Of several nodes the latest
// one counts.
func (e *levelEntry) withState(now time.Time) TopicLevelEntry {
	for _, s := range e.states {
		e.addRate(s, now)
	}
	if !e.noRate {
		e.Rate = &e.rate
	}
	for _, s := range e.states {
		t := s.Last()
		if e.Last == nil {
			e.Last = &t
			continue
		}
		messages := e.Last.Messages + t.Messages
		if t.LastModified >= e.Last.LastModified {
			e.Last = &t
		}
		e.Last.Messages = messages
	}
	return e.TopicLevelEntry
}

// topicsWanted selects topics: those that contain a text in lower case, or all. Their rates are
// those of the time now. ended reports whether the time to read is over.
type topicsWanted struct {
	whole bool // whole topics are listed instead of a level
	text  string
	now   time.Time
	ended func() bool
}

func (w topicsWanted) has(topic string) bool {
	return w.text == "" || strings.Contains(strings.ToLower(topic), w.text)
}

// collect returns the entries of the level, in order of their names. The topics of one
// branch are not adjacent in the tree: "a-b" is between "a" and "a/b".
func (l *TopicLevel) collect(nodes []iter.Seq[broker.KnownTopic], want topicsWanted) []*levelEntry {
	entries, seen := map[string]*levelEntry{}, map[string]bool{}
	for i, topics := range nodes {
		read := 0
		for t := range topics {
			if read++; read%timeCheck == 0 && want.ended() {
				l.Cut = true
				break
			}
			if !want.has(t.Name) {
				continue
			}
			e, below := l.entryOf(t.Name, want.whole, entries)
			if e == nil {
				l.Cut = true
				if want.whole {
					break
				}
				continue
			}
			if below {
				e.addRate(t, want.now)
			} else {
				e.states = append(e.states, t)
			}
			if seen[t.Name] { // at another node
				continue
			}
			if i < len(nodes)-1 {
				seen[t.Name] = true
			}
			if l.Topics++; below {
				e.Topics++
			}
		}
	}
	list := make([]*levelEntry, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, entries[name])
	}
	return list
}

// entryOf returns the entry that a topic belongs to, and whether the topic is below it; nil for
// one entry too many.
func (l *TopicLevel) entryOf(topic string, whole bool, entries map[string]*levelEntry) (e *levelEntry, below bool) {
	name, most := topic, maxFound
	if !whole {
		name, _, below = strings.Cut(topic[len(l.Prefix):], "/")
		most = maxLevelEntries
	}
	e = entries[name]
	if e == nil && len(entries) < most {
		e = &levelEntry{TopicLevelEntry: TopicLevelEntry{Name: name, Topic: topic}}
		if !whole {
			e.Topic = l.Prefix + name
		}
		entries[name] = e
	}
	return e, below
}
