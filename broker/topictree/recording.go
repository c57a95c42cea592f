package topictree

import (
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker"
)

// The bounds of recordings: with all of them a tracker needs about 4 MB.
const (
	maxRecordings   = 100
	maxSeries       = 4
	recordedSeconds = 600
	recordingTime   = time.Minute // after the last request

	// Numbers are read on the goroutines of publishers: at most as many bytes a second, of
	// which each message has a minimum.
	secondBudget = 128 << 10
	minPayload   = 1 << 10
)

// recording is the numbers of a topic's messages in the last seconds.
type recording struct {
	requested time.Time // last; guarded by the lock of the shard
	began     int64     // in seconds of Unix time; never changes

	mu     sync.Mutex // guards the fields below
	series []*series
	second int64 // in which spent bytes were read
	spent  int
}

// series is the numbers of one member: the mean of each second, at its number modulo the
// length.
type series struct {
	name  string
	last  int64 // the latest second
	means [recordedSeconds]secondMean
}

// secondMean is the mean of the numbers of a second. Seconds fit until 2106.
type secondMean struct {
	second, count uint32
	mean          float64
}

// observe records the numbers of a message, unless enough was read in this second.
func (r *recording) observe(payload []byte, second int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second != r.second {
		r.second, r.spent = second, 0
	}
	if r.spent += max(len(payload), minPayload); r.spent > secondBudget {
		return
	}
	numbers(payload, func(name string, v float64) {
		if s := r.seriesOf(name, second); s != nil {
			s.add(second, v)
		}
	})
}

// seriesOf returns the series of a member, nil if there are as many as may be. One without
// numbers in the recorded time makes place for another.
func (r *recording) seriesOf(name string, second int64) *series {
	if i := slices.IndexFunc(r.series, func(s *series) bool { return s.name == name }); i >= 0 {
		return r.series[i]
	}
	r.series = slices.DeleteFunc(r.series, func(s *series) bool { return second-s.last >= recordedSeconds })
	if len(r.series) == maxSeries {
		return nil
	}
	s := &series{name: name}
	r.series = append(r.series, s)
	return s
}

func (s *series) add(second int64, v float64) {
	s.last = max(s.last, second)
	m := &s.means[second%recordedSeconds]
	if m.second != uint32(second) {
		*m = secondMean{second: uint32(second)}
	}
	m.count++
	m.mean += (v - m.mean) / float64(m.count)
}

// between returns the mean of each second from the first to the last, and whether there is one.
func (s *series) between(first, last int64) (values []*float64, found bool) {
	values = make([]*float64, last-first+1)
	for i := range values {
		second := first + int64(i)
		if m := s.means[second%recordedSeconds]; m.second == uint32(second) && m.count > 0 {
			values[i], found = &m.mean, true
		}
	}
	return values, found
}

// values returns the recorded numbers of a topic.
func (r *recording) values(topic string, now int64) broker.TopicValues {
	first := max(r.began, now-recordedSeconds+1)
	v := broker.TopicValues{Topic: topic, Recorded: true, From: first * 1000, Step: broker.ValueStep, Series: []broker.ValueSeries{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.series {
		if values, found := s.between(first, max(first, now)); found {
			v.Series = append(v.Series, broker.ValueSeries{Name: s.name, Values: values})
		}
	}
	return v
}

// Values returns the recorded numbers of topics. Recording begins with the first request for a
// topic, also before its first message, and ends a minute after the last one.
func (t *Tracker) Values(topics []string) []broker.TopicValues {
	t.markRequested()
	now := t.now()
	t.endRecordings(now)
	list := make([]broker.TopicValues, 0, len(topics))
	for _, topic := range topics {
		r, reason := t.record(topic, now)
		if r == nil {
			list = append(list, broker.NotRecorded(reason, topic)...)
			continue
		}
		list = append(list, r.values(topic, now.Unix()))
	}
	return list
}

// record returns the recording of a topic, which may begin now, or why there is none.
func (t *Tracker) record(topic string, now time.Time) (r *recording, reason string) {
	s := t.shardOf(topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	set, e := t.settings.Load(), s.topics[topic]
	if set.ttl <= 0 || !set.tracks(topic) || len(topic) > MaxTopic || !broker.ValidTopic(topic) || e == nil && t.index.full(set.limits.Publish) {
		return nil, broker.ValuesUntracked
	}
	if r = s.recordings[topic]; r == nil {
		if t.recordings.Add(1) > maxRecordings {
			t.recordings.Add(-1)
			return nil, broker.ValuesLimit
		}
		r = &recording{began: now.Unix()}
		s.recordings[strings.Clone(topic)] = r
		if e != nil {
			e.recording = r
		}
	}
	r.requested = now
	return r, ""
}

// endRecordings ends the recordings that were not requested lately.
func (t *Tracker) endRecordings(now time.Time) {
	t.removeRecordings(func(r *recording) bool { return now.Sub(r.requested) >= recordingTime })
}

func (t *Tracker) removeRecordings(ended func(*recording) bool) {
	if t.recordings.Load() == 0 {
		return
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for topic, r := range s.recordings {
			if !ended(r) {
				continue
			}
			delete(s.recordings, topic)
			t.recordings.Add(-1)
			if e := s.topics[topic]; e != nil {
				e.recording = nil
			}
		}
		s.mu.Unlock()
	}
}
