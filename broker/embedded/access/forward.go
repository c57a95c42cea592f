package access

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// forwardTimeout is how long the broker that decides is waited for, and what it
// decided to come here.
const forwardTimeout = 15 * time.Second

// What a forwarded request is, by its second byte.
const (
	requestCommands byte = iota + 1 // a message as it goes over dynsec.Topic
	requestImport                   // a document that is merged with what is there
	requestReplace                  // a document that replaces it
)

// Serve does a request that Forward was given on another broker, on the one that
// decides about changes. The answer is for that broker; the cuts are for the
// caller to deal with once it is on its way.
func (c *Control) Serve(ctx context.Context, request []byte) (answer []byte, cuts []dynsec.Cut) {
	payload, cuts, err := c.serve(ctx, request)
	return c.encodeReply(payload, err), cuts
}

func (c *Control) serve(ctx context.Context, request []byte) ([]byte, []dynsec.Cut, error) {
	d, err := newDecoder(request)
	if err != nil {
		return nil, nil, foreign(broker.Internal, err)
	}
	kind, content := d.byte(), d.string()
	if err := d.end(); err != nil {
		return nil, nil, foreign(broker.Internal, err)
	}
	switch kind {
	case requestCommands:
		return c.answer(ctx, dynsec.DecodeRequest([]byte(content)))
	case requestImport, requestReplace:
		report, cuts, err := c.importDocument(ctx, []byte(content), kind == requestReplace)
		if err != nil {
			return nil, nil, err
		}
		payload, err := json.Marshal(report)
		return payload, cuts, err
	}
	return nil, nil, foreign(broker.Internal, ErrDamaged)
}

// encodeReply tells what came of a request, and the index at which it is in
// force. Of an error it tells what is for the user. Kinds keep their numbers.
func (c *Control) encodeReply(payload []byte, err error) []byte {
	b := binary.AppendUvarint([]byte{format}, c.AppliedIndex())
	if err == nil {
		return appendString(appendBool(b, true), string(payload))
	}
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		e = &broker.Error{Msg: "the broker that decides about changes could not do it"}
	}
	b = binary.AppendUvarint(appendBool(b, false), uint64(e.Kind))
	return appendString(appendString(b, e.Op), e.Msg)
}

// decodeReply takes a reply apart. A refusal by the other broker is failure, one
// of the reply itself err.
func decodeReply(b []byte) (index uint64, payload []byte, failure, err error) {
	d, err := newDecoder(b)
	if err != nil {
		return 0, nil, nil, err
	}
	index = uint64(d.count())
	if d.bool() {
		payload = []byte(d.string())
	} else {
		failure = &broker.Error{Kind: broker.Kind(d.count()), Op: d.string(), Msg: d.string()}
	}
	return index, payload, failure, d.end()
}

// foreign is about what another broker sent. A request did nothing; what came of
// the one behind a reply is not known.
func foreign(kind broker.Kind, err error) error {
	return &broker.Error{Kind: kind, Msg: "the brokers that share their access control do not understand each other", Err: err}
}

// elsewhere gives the way to the broker that decides, nil if it is this one.
func (c *Control) elsewhere() Replicator {
	if r := c.replicator.Load(); r != nil && !(*r).Leads() {
		return *r
	}
	return nil
}

// forward has the broker that decides do a request. What it did is in force here,
// too, when the payload of its answer is given.
func (c *Control) forward(ctx context.Context, r Replicator, kind byte, content []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	reply, err := r.Forward(ctx, appendString([]byte{format, kind}, string(content)))
	if err != nil {
		return nil, unconfirmed(err)
	}
	index, payload, failure, err := decodeReply(reply)
	switch {
	case err != nil:
		return nil, foreign(broker.Unconfirmed, err)
	case failure != nil:
		return nil, failure
	}
	if err := c.applied.wait(ctx, index); err != nil {
		return nil, &broker.Error{Kind: broker.Unconfirmed, Err: err,
			Msg: "the change was made, but is not known to be in force on this broker yet"}
	}
	return payload, nil
}

// forwardOne is forward for one command of the Go API.
func (c *Control) forwardOne(ctx context.Context, r Replicator, command dynsec.Command) error {
	payload, err := c.forward(ctx, r, requestCommands, dynsec.EncodeRequest([]dynsec.Command{command}))
	if err != nil {
		return err
	}
	answers, err := dynsec.DecodeAnswers(payload)
	if err != nil || len(answers) != 1 {
		return foreign(broker.Unconfirmed, err)
	}
	return answers[0].Err()
}

// forwardImport is forward for a document.
func (c *Control) forwardImport(ctx context.Context, r Replicator, document []byte, replace bool) (report broker.ImportReport, err error) {
	kind := requestImport
	if replace {
		kind = requestReplace
	}
	payload, err := c.forward(ctx, r, kind, document)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(payload, &report); err != nil {
		return report, foreign(broker.Unconfirmed, err)
	}
	return report, nil
}
