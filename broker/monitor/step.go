package monitor

import (
	"slices"
	"time"
)

// Step is a resolution of the history: the length of its intervals, and for how long they
// are kept.
type Step struct {
	Length time.Duration
	Kept   time.Duration
}

// steps are the resolutions, the finest first. Each samples enough for a chart of its
// range; all but the first are aggregated from the first, which therefore must be kept for
// longer than the longest interval.
var steps = []Step{
	{10 * time.Second, time.Hour},
	{time.Minute, 24 * time.Hour},
	{5 * time.Minute, 3 * 24 * time.Hour},
	{10 * time.Minute, 30 * 24 * time.Hour},
}

// Steps returns the resolutions, the finest first.
func Steps() []Step { return slices.Clone(steps) }

// finest is the resolution of the samples.
var finest = steps[0]

// seconds returns the length of an interval in seconds.
func (s Step) seconds() int64 { return int64(s.Length / time.Second) }

// slots returns the number of rows: one more than the range has intervals, since the
// newest one is not complete.
func (s Step) slots() int64 { return int64(s.Kept/s.Length) + 1 }

// begin returns the start of the interval that contains a time, in epoch seconds.
func (s Step) begin(at int64) int64 { return at - at%s.seconds() }

// slot returns the slot of the interval that starts at a time.
func (s Step) slot(begin int64) int64 { return begin / s.seconds() % s.slots() }

// interval returns the start of the finest interval for a sample of a date, in epoch
// seconds. Samples are as far apart as intervals are long, so one that is slightly early or
// late must not leave an interval empty: one that follows that of before, in the interval
// last, at about this distance belongs to the next one, unless it is more than a length away
// from its centre.
func interval(date, before, last int64) int64 {
	length := int64(finest.Length / time.Millisecond)
	next := last + finest.seconds()
	follows := length/2 <= date-before && date-before <= length+length/2
	if away := date - (next*1000 + length/2); follows && -length <= away && away <= length {
		return next
	}
	return finest.begin(date / 1000)
}
