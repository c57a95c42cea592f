package remote

import (
	"context"
	"encoding/json"
	"errors"

	"signalbox/broker"
)

// command is a command other than those of dynamic security.
type command struct {
	Name            string `json:"command"`
	Count           int    `json:"count,omitempty"`
	CorrelationData string `json:"correlationData"`
}

// encode makes the message that holds just this command.
func (c command) encode(correlation string) []byte {
	c.CorrelationData = correlation
	payload, _ := json.Marshal(map[string][]command{"commands": {c}}) // nothing in it can be refused
	return payload
}

// request is a command to be sent once: encode makes its message for the
// correlation data that it is to carry.
type request struct {
	op      string
	topic   string
	feature broker.Capability
	encode  func(correlation string) []byte
}

// do sends a request and gives the message that answers it, and the
// correlation data by which to find the answer in it. The error is a
// [*broker.Error]: Unavailable while nothing was sent, Unconfirmed after that,
// Unsupported where the broker has nobody who would answer.
func (b *Broker) do(ctx context.Context, r request) (payload []byte, correlation string, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.timing.answer)
	defer cancel()
	s, err := b.link.current(ctx)
	if err != nil {
		return nil, "", b.unavailable(r.op, err)
	}
	if !s.offered.has(r.feature) {
		return nil, "", broker.NotSupported(r.op, r.feature)
	}
	correlation = b.correlation(ctx)
	payload, err = s.ask(ctx, newCall(r.topic, correlation, r.encode(correlation)))
	if err != nil {
		return nil, "", r.failed(err)
	}
	return payload, correlation, nil
}

// unavailable says why there is no session to send with.
func (b *Broker) unavailable(op string, err error) error {
	if cause, ok := errors.AsType[*broker.Error](err); ok {
		return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: cause.Msg, Err: cause.Err}
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: b.endpoint.addr + " has not answered yet", Err: err}
}

// failed says what became of a call without an answer.
func (r request) failed(err error) error {
	e := &broker.Error{Kind: broker.Unconfirmed, Op: r.op, Err: err}
	switch {
	case errors.Is(err, errNoEndpoint):
		return broker.NotSupported(r.op, r.feature)
	case errors.Is(err, errNotSent):
		e.Kind, e.Msg = broker.Unavailable, "the command could not be sent to the broker"
	case errors.Is(err, errLost):
		e.Msg = "the connection to the broker was lost before it answered: the command may have been carried out"
	case errors.Is(err, errNoAnswer):
		e.Msg = "the broker took the command and did not answer in time: it may have been carried out"
	default:
		e.Msg = "the broker did not answer in time: the command may have been carried out"
	}
	return e
}

// ask sends a command other than those of dynamic security, and decodes the
// data of its answer into data.
func (b *Broker) ask(ctx context.Context, feature broker.Capability, topic string, c command, data any) error {
	payload, correlation, err := b.do(ctx, request{op: c.Name, topic: topic, feature: feature, encode: c.encode})
	if err != nil {
		return err
	}
	err = decodeAnswer(payload, correlation, data)
	if refusal, ok := errors.AsType[commandError](err); ok {
		return refusal.classify(c.Name, feature)
	}
	if err != nil {
		return &broker.Error{Kind: broker.Internal, Op: c.Name, Msg: "the broker's answer cannot be understood", Err: err}
	}
	return nil
}

// commandError is the text of an answer that says no.
type commandError string

func (e commandError) Error() string { return string(e) }

// unknownCommand is what a broker says to a command that it does not have.
const unknownCommand commandError = "Unknown command"

func (e commandError) classify(op string, feature broker.Capability) error {
	if e == unknownCommand {
		return broker.NotSupported(op, feature)
	}
	return &broker.Error{Kind: broker.Internal, Op: op, Msg: string(e)}
}

// decodeAnswer finds the answer with the correlation data and decodes its data.
// The error is a commandError where the answer is one.
func decodeAnswer(payload []byte, correlation string, data any) error {
	var m struct {
		Responses []struct {
			CorrelationData string          `json:"correlationData"`
			Error           string          `json:"error"`
			Data            json.RawMessage `json:"data"`
		} `json:"responses"`
	}
	if err := json.Unmarshal(payload, &m); err != nil {
		return err
	}
	for _, r := range m.Responses {
		switch {
		case r.CorrelationData != correlation:
		case r.Error != "":
			return commandError(r.Error)
		default:
			return json.Unmarshal(r.Data, data)
		}
	}
	return errors.New("answer not found in its message")
}
