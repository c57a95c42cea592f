// Package sys reports on the embedded broker: the topics under $SYS with the names and
// forms of Mosquitto 2.0, their history, and metrics for Prometheus. It owns no counters;
// it reads those of other packages.
//
// Of this module it imports broker and broker/embedded/engine only. It must not import a
// database, HTTP, or an MQTT library, and it publishes nothing itself.
package sys

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// Kept is the number of samples in the history; beyond, the oldest is dropped.
const Kept = 60

// Source provides the values.
type Source interface {
	// Read returns all values as they are now. It is safe for concurrent use.
	Read() Reading
}

// Reading is all values at one time.
type Reading struct {
	engine.Counts

	WireReceived, WireSent int64            // bytes in all, including those in Counts
	Accepted               int64            // connections, whatever their outcome
	Lost                   map[string]int64 // failed connections by cause; there are few causes
	Open, HalfOpen         int64            // connections now, and those of them without CONNECT
	LoginBytes             int64            // held for clients that have not logged in
	Stored, StoredBytes    int64            // retained and queued messages, each counted once, and their payloads
	NotTracked             int64            // messages that exceeded the topic tree's capacity
	StoreFails             bool             // nothing can be stored at present
}

// dropped returns the number of messages that did not reach a client.
func (r *Reading) dropped() (n int64) {
	for _, one := range r.Dropped {
		n += one
	}
	return n
}

// Options configure a Tree.
type Options struct {
	Source  Source
	Version string           // of the broker, "" if unknown
	Now     func() time.Time // nil for time.Now
}

// Tree is the broker's $SYS tree with its history. All methods are safe for
// concurrent use.
type Tree struct {
	source  Source
	now     func() time.Time
	version string
	started time.Time

	mu       sync.Mutex // guards what follows
	loads    loads
	heapHigh int64
	last     map[string]string // as returned by Sample
	history  []broker.SysTopics
}

// New returns a Tree without samples. Its uptime starts now.
func New(o Options) *Tree {
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tree{source: o.Source, now: o.Now, version: "signalbox", started: o.Now()}
	if o.Version != "" {
		t.version += " version " + o.Version
	}
	return t
}

// Topic is a topic of the tree with its value.
type Topic struct{ Name, Value string }

// Sample adds a sample to the history and returns what has changed since the previous one,
// in order of the names: the caller publishes it, retained. It must be called every 10
// seconds, as by Mosquitto, by one caller at a time.
func (t *Tree) Sample() (changed []Topic) {
	now, r := t.now(), t.source.Read()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads.update(now, &r)
	topics := t.figures(now, &r)
	for name, value := range topics {
		if t.last[name] != value {
			changed = append(changed, Topic{name, value})
		}
	}
	slices.SortFunc(changed, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	t.last = topics
	t.history = append(t.history, broker.SysTopics{Topics: topics, Date: now.UnixMilli(), Reported: now})
	if over := len(t.history) - Kept; over > 0 {
		t.history = slices.Delete(t.history, 0, over)
	}
	return changed
}

// Version returns the value of the topic with the broker's version.
func (t *Tree) Version() string { return t.version }

// Figures returns all topics with their current values; averages are those of the last
// sample.
func (t *Tree) Figures() broker.SysTopics {
	now, r := t.now(), t.source.Read()
	t.mu.Lock()
	defer t.mu.Unlock()
	return broker.SysTopics{Topics: t.figures(now, &r), Date: now.UnixMilli(), Reported: now}
}

// Brief returns the topics of a reading that lacks sessions and what is queued for them.
func (t *Tree) Brief(r Reading) broker.SysTopics {
	now, f := t.now(), figures{}
	f.text("uptime", seconds(now.Sub(t.started)))
	f.brief(&r)
	return broker.SysTopics{Topics: f, Date: now.UnixMilli(), Reported: now}
}

// History returns the last samples, oldest first. The caller must not change them.
func (t *Tree) History() []broker.SysTopics {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.history)
}

// HistoryAfter returns the samples that follow the one of a date, oldest first; all if there
// is none of that date. The caller must not change them.
func (t *Tree) HistoryAfter(date int64) []broker.SysTopics {
	t.mu.Lock()
	defer t.mu.Unlock()
	return broker.SysAfter(t.history, date)
}

// figures returns the topics of a reading. The caller holds mu.
func (t *Tree) figures(now time.Time, r *Reading) map[string]string {
	f := figures{}
	heap := heapInUse()
	t.heapHigh = max(t.heapHigh, heap)
	f.count("heap/current", heap)
	f.count("heap/maximum", t.heapHigh)
	f.text("uptime", seconds(now.Sub(t.started)))
	f.text("version", t.version)
	f.brief(r)
	f.clients(r)
	f.messages(r)
	f.loads(&t.loads)
	return f
}
