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

// Limits of what a replay publishes at once.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20 // a single message may be larger
)

// The pauses between attempts of a replay while the broker cannot be reached.
const (
	minRetryPause = time.Second
	maxRetryPause = 30 * time.Second
)

// rangeOf returns the range between two times in Unix seconds, both inclusive;
// nil is an open end. The error is a [*broker.Error] of kind Invalid without
// Op.
func rangeOf(gte, lte *float64) (Range, error) {
	if errs := checkRange(gte, lte); len(errs) > 0 {
		return Range{}, invalid("", errs)
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

// milliseconds converts seconds to milliseconds. A value within a microsecond
// of a whole millisecond is rounded to it, because most decimal fractions are
// not exact in binary.
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

// checkRange returns the problems of the ends of a range.
func checkRange(gte, lte *float64) fieldErrors {
	var errs fieldErrors
	if gte != nil && !isFinite(*gte) {
		errs.add("gte", "must be a finite number")
	}
	if lte != nil && !isFinite(*lte) {
		errs.add("lte", "must be a finite number")
	}
	if len(errs) == 0 && gte != nil && lte != nil && *gte > *lte {
		errs.add("lte", "must not be less than gte")
	}
	return errs
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// checkReplay checks the request of a replay. The error is a [*broker.Error]:
// of kind Invalid with every member that is not valid, or Conflict if the
// stream does not persist messages.
func checkReplay(d Definition, r broker.StreamReplay) error {
	var errs fieldErrors
	errs.add("replaytopic", checkTopic(r.ReplayTopic))
	errs = append(errs, checkRange(r.GTE, r.LTE)...)
	if r.Limit < -1 {
		errs.add("limit", "must be -1 or more")
	}
	if !isFinite(r.Speed) || r.Speed < 0 {
		errs.add("speed", "must be a finite number and not negative")
	}
	if len(errs) > 0 {
		return invalid(opReplay, errs)
	}
	if !d.Persist {
		return &broker.Error{Kind: broker.Conflict, Op: opReplay, Msg: "the stream does not keep messages; set persist"}
	}
	return nil
}

// replay publishes the stored messages of a stream again. It runs once.
type replay struct {
	stream  Definition
	request broker.StreamReplay
	count   int64 // limit of the messages to send
	started time.Time
	clock   clock
	log     *slog.Logger // set before run, or discards
	sent    atomic.Int64
}

// newReplay returns the replay of a valid request. Total is the number of the
// stream's stored messages in its range.
func newReplay(d Definition, r broker.StreamReplay, total int64, clock clock) *replay {
	if r.Limit >= 0 {
		total = min(total, r.Limit)
	}
	return &replay{stream: d, request: r, count: total, started: clock.Now(), clock: clock, log: slog.New(slog.DiscardHandler)}
}

// progress returns the progress of the replay. It is safe for concurrent use.
func (p *replay) progress() broker.StreamProgress {
	return broker.StreamProgress{
		ReplayTopic: p.request.ReplayTopic, Sent: p.sent.Load(), Total: p.count,
		StartedAt: p.started.UnixMilli(), Speed: p.request.Speed, Reverse: p.request.Reverse,
	}
}

// run publishes the messages that are stored now, until all are done, the
// context ends or the broker takes no more, which the error states. While the
// broker cannot be reached, it waits.
func (p *replay) run(ctx context.Context, messageLog Log, m messaging.Broker) error {
	err := p.publish(ctx, messageLog, m)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("replay stream %q: %w", p.stream.StreamName, err)
	}
	return nil
}

func (p *replay) publish(ctx context.Context, messageLog Log, m messaging.Broker) error {
	if p.count == 0 {
		return nil
	}
	span, err := p.resolveRange(ctx, messageLog)
	if err != nil {
		return err
	}
	s := sender{replay: p, messaging: m, left: p.count}
	err = messageLog.Read(ctx, span, p.request.Reverse, func(m messaging.Message) bool { return s.send(ctx, m) })
	if err == nil {
		s.flush(ctx)
		err = s.err
	}
	if s.refused > 0 {
		p.log.Warn("the broker refused messages of a replay", "refused", s.refused)
	}
	return err
}

// resolveRange returns the range to replay. It ends with the last message that
// is stored now: later messages are not replayed, even if the clock is set
// back.
func (p *replay) resolveRange(ctx context.Context, messageLog Log) (Range, error) {
	r, err := rangeOf(p.request.GTE, p.request.LTE)
	if err != nil {
		return r, err
	}
	last := int64(math.MinInt64) // before all messages
	err = messageLog.Read(ctx, r, true, func(m messaging.Message) bool {
		last = m.At
		return false
	})
	r.To = last
	return r, err
}

// sender publishes the messages of one replay at its pace. Messages that are
// due are published together.
type sender struct {
	*replay
	messaging  messaging.Broker
	left       int64               // messages still to take
	firstTaken time.Time           // when the first message was taken
	firstAt    int64               // when the first message had arrived, epoch milliseconds
	batch      []messaging.Message // due and not published
	bytes      int
	refused    int64
	waiting    bool  // the broker could not be reached at the last attempt
	err        error // why the replay must end
}

// send takes a message when it is due, and reports whether to continue.
func (s *sender) send(ctx context.Context, m messaging.Message) bool {
	if s.firstTaken.IsZero() {
		s.firstTaken, s.firstAt = s.clock.Now(), m.At
	}
	if !s.waitUntilDue(ctx, s.offset(m.At)) {
		return false
	}
	if len(s.batch) == maxBatch || s.bytes+m.Size() > maxBatchBytes {
		s.flush(ctx)
	}
	s.enqueue(m)
	s.left--
	return s.err == nil && s.left > 0
}

// enqueue adds a message to the batch in the form in which it is published.
func (s *sender) enqueue(m messaging.Message) {
	m.Topic, m.ExpiresAt = s.request.ReplayTopic, 0
	if s.stream.TargetQoS >= 0 {
		m.QoS = byte(s.stream.TargetQoS)
	}
	s.batch = append(s.batch, m)
	s.bytes += m.Size()
}

// offset returns the delay after the first message at which a message is due
// that had arrived at the given time.
func (s *sender) offset(at int64) time.Duration {
	if s.request.Speed == 0 {
		return 0
	}
	ns := math.Abs(float64(at)-float64(s.firstAt)) * float64(time.Millisecond) / s.request.Speed
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// waitUntilDue publishes the batch, waits until a message is due, and reports
// whether it can be taken.
func (s *sender) waitUntilDue(ctx context.Context, offset time.Duration) bool {
	if offset == 0 || s.clock.Now().Sub(s.firstTaken) >= offset {
		return true
	}
	s.flush(ctx)
	for s.err == nil {
		d := offset - s.clock.Now().Sub(s.firstTaken)
		if d <= 0 {
			return true
		}
		if !sleep(ctx, s.clock, d) {
			s.err = ctx.Err()
		}
	}
	return false
}

// flush publishes the batch. While the broker cannot be reached, it waits and
// continues with the rest.
func (s *sender) flush(ctx context.Context) {
	pause := minRetryPause
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
			pause = minRetryPause
		}
		s.err = s.waitForRetry(ctx, pause, err)
		pause = min(2*pause, maxRetryPause)
	}
	clear(s.batch) // the messages are no longer needed
	s.batch, s.bytes = s.batch[:0], 0
}

// waitForRetry waits before another attempt, and logs the first one of an
// outage. It returns an error if there must be none: the cause is not that the
// broker cannot be reached, or the context ended.
func (s *sender) waitForRetry(ctx context.Context, pause time.Duration, cause error) error {
	if broker.KindOf(cause) != broker.Unavailable {
		return cause
	}
	if !s.waiting {
		s.waiting = true
		s.log.Warn("a replay waits for the broker", "error", cause)
	}
	if !sleep(ctx, s.clock, pause) {
		return ctx.Err()
	}
	return nil
}
