package remote

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/latency"
)

// Figures are the measurements of a broker since it was dialled.
type Figures struct {
	Reconnects      int64 // sessions after the first
	ConnectFailures int64 // attempts to connect that failed
	Commands        latency.Snapshot
	Failed          [FailureKinds]int64 // commands, by FailureKind
}

// FailureKind is how a command failed.
type FailureKind int

// The ways in which a command fails.
const (
	NotSent         FailureKind = iota // not connected, or the connection was lost before
	NoResponse                         // sent; it may have been carried out
	Refused                            // the broker responded that it did not carry it out
	InvalidResponse                    // the response cannot be understood
	FailureKinds    = int(InvalidResponse) + 1
)

// String returns the kind as a label.
func (k FailureKind) String() string {
	return [...]string{"not-sent", "no-response", "refused", "invalid-response"}[k]
}

// commandBounds are the upper bounds of the buckets of Figures.Commands, in seconds. They are
// few: every broker has a series for each.
var commandBounds = []float64{0.01, 0.05, 0.25, 1, 5}

// counters are counted since the broker was dialled.
type counters struct {
	sessions        atomic.Int64
	connectFailures atomic.Int64
	commands        *latency.Histogram // commands with a response
	failed          [FailureKinds]atomic.Int64
}

// Figures returns the measurements; it never blocks.
func (b *Broker) Figures() Figures {
	f := Figures{Reconnects: max(b.figures.sessions.Load()-1, 0),
		ConnectFailures: b.figures.connectFailures.Load(), Commands: b.figures.commands.Snapshot()}
	for k := range f.Failed {
		f.Failed[k] = b.figures.failed[k].Load()
	}
	return f
}

// countUnanswered counts a command without a response, by the error of its caller. One that the
// broker does not offer is no failure.
func (c *counters) countUnanswered(err error) {
	switch broker.KindOf(err) {
	case broker.Unavailable, broker.Denied:
		c.failed[NotSent].Add(1)
	case broker.Unconfirmed:
		c.failed[NoResponse].Add(1)
	}
}

// countResponse counts a response by the error that was made of it, which it returns.
func (c *counters) countResponse(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, errInvalidResponse):
		c.failed[InvalidResponse].Add(1)
	default:
		c.failed[Refused].Add(1)
	}
	return err
}

// errInvalidResponse is the cause of errors of responses that cannot be decoded.
var errInvalidResponse = errors.New("invalid response")

// invalidResponse returns the error of a response that cannot be decoded.
func invalidResponse(op string, why error) error {
	return &broker.Error{Kind: broker.Internal, Op: op, Msg: "the broker's answer cannot be understood", Err: errors.Join(errInvalidResponse, why)}
}

// took counts and, if it was slow, logs a command that the broker has responded to, or did not
// in time.
func (b *Broker) took(ctx context.Context, r request, d time.Duration, err error) {
	if err == nil {
		b.figures.commands.Observe(d)
	}
	if b.slow <= 0 || d < b.slow {
		return
	}
	attrs := []slog.Attr{slog.String("op", r.op), slog.String("object", r.object), slog.Duration("duration", d)}
	if b.requestID != nil {
		attrs = append(attrs, slog.String("request_id", b.requestID(ctx)))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	b.log.LogAttrs(ctx, slog.LevelWarn, "a command to a broker was slow", attrs...)
}
