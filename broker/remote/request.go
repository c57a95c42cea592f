package remote

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/control"
)

// request is a command to be sent once; encode returns its message with the correlation data.
type request struct {
	op             string
	object         string // the name of what it is about, "" for none; for the log
	topic          string
	feature        broker.Capability
	encode         func(correlation string) []byte
	subscribesLate bool // responses are subscribed to on first use
	takesLong      bool // the broker waits for other systems before it responds, or copies all of its data
}

// do sends a request and returns the response and its correlation data. The error is a
// [*broker.Error]: Unavailable if nothing was sent, Unconfirmed after that, Unsupported if the
// broker has no endpoint.
func (b *Broker) do(ctx context.Context, r request) (payload []byte, correlation string, err error) {
	defer func() {
		if err != nil {
			b.figures.countUnanswered(err)
		}
	}()
	limit := b.timing.responseTimeout
	if r.takesLong {
		limit += b.timing.longTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := b.link.current(ctx)
	if err != nil {
		return nil, "", b.unavailable(r.op, err)
	}
	if !s.offered.has(r.feature) {
		return nil, "", s.offered.missing(r.feature).Error(r.op)
	}
	return b.exchange(ctx, s, r)
}

// exchange is do on a given session, without checking capabilities.
func (b *Broker) exchange(ctx context.Context, s *session, r request) (payload []byte, correlation string, err error) {
	if r.subscribesLate {
		if err := s.subscribeOnce(ctx, r.topic+control.ResponseSuffix); err != nil {
			return nil, "", r.listenError(err)
		}
	}
	correlation = b.correlation(ctx)
	c := newCall(r.topic, correlation, r.encode(correlation))
	began := b.now()
	payload, err = s.ask(ctx, c)
	b.took(ctx, r, b.now().Sub(began), err)
	if err != nil {
		return nil, "", r.failedCall(c, err)
	}
	return payload, correlation, nil
}

// unavailable explains why there is no session.
func (b *Broker) unavailable(op string, err error) error {
	if cause, ok := errors.AsType[*broker.Error](err); ok {
		return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: cause.Msg, Err: cause.Err}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: b.endpoint.Addr + " has not answered yet", Err: err}
}

// listenError explains why a response could not be received, so that the request was not sent.
func (r request) listenError(err error) error {
	if errors.Is(err, errNotAllowed) {
		return &broker.Error{Kind: broker.Denied, Op: r.op, Err: err,
			Msg: "the broker does not let the connection's user subscribe to " + r.topic + control.ResponseSuffix}
	}
	return r.failed(errors.Join(errNotSent, err))
}

// failedCall is failed for a call that may be too long for the broker.
func (r request) failedCall(c *call, err error) error {
	failed := r.failed(err)
	const shortest = 1000 // bytes; shorter ones are accepted by every broker
	n := len(c.topic) + len(c.payload)
	e, ok := errors.AsType[*broker.Error](failed)
	if !ok || e.Kind != broker.Unconfirmed || n < shortest {
		return failed
	}
	setting := "message_size_limit" // such messages are dropped
	if errors.Is(err, errLost) {
		setting = "max_packet_size"
	}
	e.Msg += fmt.Sprintf("; if this happens again, check that the broker takes packets of %d bytes (%s)", n, setting)
	return e
}

// failed explains a call without a response.
func (r request) failed(err error) error {
	e := &broker.Error{Kind: broker.Unconfirmed, Op: r.op, Err: err}
	switch {
	case errors.Is(err, errNoEndpoint):
		return broker.NotSupported(r.op, r.feature)
	case errors.Is(err, errNotSent):
		e.Kind, e.Msg = broker.Unavailable, "the command could not be sent to the broker"
	case errors.Is(err, errLost):
		e.Msg = "the connection to the broker was lost before it answered: the command may have been carried out"
	case errors.Is(err, errNoResponse):
		e.Msg = "the broker took the command and did not answer in time: it may have been carried out"
	default:
		e.Msg = "the broker did not answer in time: the command may have been carried out"
	}
	return e
}

// refusalError is a negative response.
type refusalError interface {
	error
	Classify(op string, feature broker.Capability) error
}

// ask sends a command, other than those of dynamic security, and decodes the response into
// data, which may be nil.
func (b *Broker) ask(ctx context.Context, feature broker.Capability, topic string, c control.Command, data any) error {
	return b.read(ctx, request{op: c.Name, object: c.Object(), topic: topic, feature: feature, encode: c.Encode}, data)
}

// read sends a request and decodes the response into data, which may be nil.
func (b *Broker) read(ctx context.Context, r request, data any) error {
	payload, correlation, err := b.do(ctx, r)
	if err != nil {
		return err
	}
	err = control.Read(payload, correlation, data)
	if no, ok := errors.AsType[refusalError](err); ok {
		err = no.Classify(r.op, r.feature)
	} else if err != nil {
		err = invalidResponse(r.op, err)
	}
	return b.figures.countResponse(err)
}
