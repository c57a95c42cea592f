package streams

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// The bounds of what a replay hands to the broker at once.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20 // one message may be longer
)

// The pauses before a replay tries again what the broker was not reached with.
const (
	firstRetry   = time.Second
	slowestRetry = 30 * time.Second
)

// rangeOf gives the range between two times in Unix seconds, both included and
// nil where open. The error is a [*broker.Error] of kind Invalid without Op.
func rangeOf(gte, lte *float64) (Range, error) {
	if found := rangeFlaws(gte, lte); len(found) > 0 {
		return Range{}, refuse("", found)
	}
	r := Range{From: math.MinInt64, To: math.MaxInt64}
	if gte != nil {
		r.From = milliseconds(*gte, math.Ceil)
	}
	if lte != nil {
		r.To = milliseconds(*lte, math.Floor)
	}
	return r, nil
}

// milliseconds turns seconds into milliseconds. What is within a microsecond of
// a millisecond is that one, as most of them are no binary fractions.
func milliseconds(seconds float64, round func(float64) float64) int64 {
	const near = 1e-3
	ms := seconds * 1000
	if nearest := math.Round(ms); math.Abs(ms-nearest) < near {
		ms = nearest
	} else {
		ms = round(ms)
	}
	switch {
	case ms >= math.MaxInt64:
		return math.MaxInt64
	case ms <= math.MinInt64:
		return math.MinInt64
	}
	return int64(ms)
}

// rangeFlaws tells what is wrong with the ends of a range.
func rangeFlaws(gte, lte *float64) flaws {
	var found flaws
	if gte != nil && !finite(*gte) {
		found.check("gte", "must be a finite number")
	}
	if lte != nil && !finite(*lte) {
		found.check("lte", "must be a finite number")
	}
	if len(found) == 0 && gte != nil && lte != nil && *gte > *lte {
		found.check("lte", "must not be less than gte")
	}
	return found
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// checkReplay tells whether a replay can be asked of a stream. The error is a
// [*broker.Error]: of kind Invalid with every member that cannot be used, or
// Conflict where the stream keeps no messages.
func checkReplay(d Definition, r broker.StreamReplay) error {
	var found flaws
	found.check("replaytopic", topicFlaw(r.ReplayTopic))
	found = append(found, rangeFlaws(r.GTE, r.LTE)...)
	if r.Limit < -1 {
		found.check("limit", "must be -1 or more")
	}
	if !finite(r.Speed) || r.Speed < 0 {
		found.check("speed", "must be a finite number and not negative")
	}
	if len(found) > 0 {
		return refuse(opReplay, found)
	}
	if !d.Persist {
		return &broker.Error{Kind: broker.Conflict, Op: opReplay, Msg: "the stream does not keep messages; set persist"}
	}
	return nil
}

// replay publishes what a stream keeps once more. It is run once.
type replay struct {
	stream  Definition
	request broker.StreamReplay
	count   int64 // how many are sent at most
	started time.Time
	clock   clock
	log     *slog.Logger // where run tells what it meets with; nowhere unless it is set before
	sent    atomic.Int64
}

// newReplay makes the replay of a request that was checked. Total is how many
// messages the stream keeps in its range.
func newReplay(d Definition, r broker.StreamReplay, total int64, clock clock) *replay {
	if r.Limit >= 0 {
		total = min(total, r.Limit)
	}
	return &replay{stream: d, request: r, count: total, started: clock.Now(), clock: clock, log: slog.New(slog.DiscardHandler)}
}

// progress tells how far the replay is. It may be called at any time.
func (p *replay) progress() broker.StreamProgress {
	return broker.StreamProgress{
		ReplayTopic: p.request.ReplayTopic, Sent: p.sent.Load(), Total: p.count,
		StartedAt: p.started.UnixMilli(), Speed: p.request.Speed, Reverse: p.request.Reverse,
	}
}

// run publishes the messages that are kept now, until all are done with, the
// context ends or the broker takes no more; the error says which. While the
// broker is not reached, it waits.
func (p *replay) run(ctx context.Context, kept Log, m messaging.Broker) error {
	err := p.publish(ctx, kept, m)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("replay stream %q: %w", p.stream.StreamName, err)
	}
	return nil
}

func (p *replay) publish(ctx context.Context, kept Log, m messaging.Broker) error {
	if p.count == 0 {
		return nil
	}
	span, err := p.span(ctx, kept)
	if err != nil {
		return err
	}
	s := sender{replay: p, messaging: m, left: p.count}
	err = kept.Read(ctx, span, p.request.Reverse, func(m messaging.Message) bool { return s.take(ctx, m) })
	if err == nil {
		s.flush(ctx)
		err = s.err
	}
	if s.refused > 0 {
		p.log.Warn("the broker refused messages of a replay", "refused", s.refused)
	}
	return err
}

// span gives the range that is replayed. It ends with the last message that is
// there: nothing is replayed that comes later, whatever the clock did.
func (p *replay) span(ctx context.Context, kept Log) (Range, error) {
	r, err := rangeOf(p.request.GTE, p.request.LTE)
	if err != nil {
		return r, err
	}
	last := int64(math.MinInt64) // before all messages
	err = kept.Read(ctx, r, true, func(m messaging.Message) bool {
		last = m.At
		return false
	})
	r.To = last
	return r, err
}

// sender publishes the messages of one replay at its pace. What is due goes out
// together.
type sender struct {
	*replay
	messaging messaging.Broker
	left      int64               // how many are still to be taken
	begun     time.Time           // when the first was taken
	first     int64               // when that one had come, epoch milliseconds
	batch     []messaging.Message // taken, due, not published
	bytes     int
	refused   int64
	waiting   bool  // the broker was not reached when last tried
	err       error // why no more can be published
}

// take takes a message when it is due, and tells whether more are wanted.
func (s *sender) take(ctx context.Context, m messaging.Message) bool {
	if s.begun.IsZero() {
		s.begun, s.first = s.clock.Now(), m.At
	}
	if !s.await(ctx, s.offset(m.At)) {
		return false
	}
	if len(s.batch) == maxBatch || s.bytes+m.Size() > maxBatchBytes {
		s.flush(ctx)
	}
	s.add(m)
	s.left--
	return s.err == nil && s.left > 0
}

// add puts a message into the batch as it is to be published.
func (s *sender) add(m messaging.Message) {
	m.Topic, m.ExpiresAt = s.request.ReplayTopic, 0
	if s.stream.TargetQoS >= 0 {
		m.QoS = byte(s.stream.TargetQoS)
	}
	s.batch = append(s.batch, m)
	s.bytes += m.Size()
}

// offset tells how long after the first message one is due that had come at the
// given time.
func (s *sender) offset(at int64) time.Duration {
	if s.request.Speed == 0 {
		return 0
	}
	ns := math.Abs(float64(at)-float64(s.first)) * float64(time.Millisecond) / s.request.Speed
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// await waits until a message is due, after having published those before. It
// tells whether that one can be taken.
func (s *sender) await(ctx context.Context, offset time.Duration) bool {
	if offset == 0 || s.clock.Now().Sub(s.begun) >= offset {
		return true
	}
	s.flush(ctx)
	for s.err == nil {
		d := offset - s.clock.Now().Sub(s.begun)
		if d <= 0 {
			return true
		}
		if !rest(ctx, s.clock, d) {
			s.err = ctx.Err()
		}
	}
	return false
}

// flush publishes the batch. While the broker is not reached, it waits and goes
// on with what is left.
func (s *sender) flush(ctx context.Context) {
	pause := firstRetry
	for left := s.batch; len(left) > 0 && s.err == nil; {
		s.messaging.WaitForCapacity(ctx, s.request.ReplayTopic)
		done, refused, err := s.messaging.Publish(ctx, left)
		s.sent.Add(int64(done - refused))
		s.refused += int64(refused)
		if left = left[done:]; len(left) == 0 || err == nil {
			s.waiting = false
			break
		}
		if done > 0 {
			pause = firstRetry
		}
		s.err = s.wait(ctx, pause, err)
		pause = min(2*pause, slowestRetry)
	}
	clear(s.batch) // the messages are no longer needed
	s.batch, s.bytes = s.batch[:0], 0
}

// wait waits before a further attempt, and tells so once until one succeeds.
// The error says why there is none: what failed was not that the broker is out
// of reach, or the context ended.
func (s *sender) wait(ctx context.Context, pause time.Duration, cause error) error {
	if broker.KindOf(cause) != broker.Unavailable {
		return cause
	}
	if !s.waiting {
		s.waiting = true
		s.log.Warn("a replay waits for the broker", "error", cause)
	}
	if !rest(ctx, s.clock, pause) {
		return ctx.Err()
	}
	return nil
}
