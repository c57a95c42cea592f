package access

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// forwardTimeout bounds the wait for the broker that decides, and for its change to be
// applied here.
const forwardTimeout = 15 * time.Second

// The second byte of a forwarded request.
const (
	requestCommands byte = iota + 1 // a message as sent to dynsec.Topic
	requestImport                   // a document to be merged
	requestReplace                  // a document that replaces everything
)

// Serve handles a request that was passed to Forward on another broker. It runs on the
// broker that decides changes. The response is for the other broker; the caller disconnects
// the clients in disconnects after sending it.
func (c *Control) Serve(ctx context.Context, request []byte) (answer []byte, disconnects []dynsec.Disconnect) {
	payload, disconnects, err := c.serve(ctx, request)
	return c.encodeReply(payload, err), disconnects
}

func (c *Control) serve(ctx context.Context, request []byte) ([]byte, []dynsec.Disconnect, error) {
	d, err := newDecoder(request)
	if err != nil {
		return nil, nil, protocolMismatch(broker.Internal, err)
	}
	kind, content := d.byte(), d.string()
	if err := d.end(); err != nil {
		return nil, nil, protocolMismatch(broker.Internal, err)
	}
	switch kind {
	case requestCommands:
		return c.respond(ctx, dynsec.DecodeRequest([]byte(content)))
	case requestImport, requestReplace:
		report, disconnects, err := c.importDocument(ctx, strings.NewReader(content), kind == requestReplace)
		if err != nil {
			return nil, nil, err
		}
		payload, err := json.Marshal(report)
		return payload, disconnects, err
	}
	return nil, nil, protocolMismatch(broker.Internal, errDamaged)
}

// encodeReply encodes the outcome of a request, and the index at which it is in force. Of
// an error it encodes what is meant for users. Kinds keep their numbers.
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

// decodeReply decodes a reply. A refusal by the other broker is failure, an error of the
// decoding err.
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

// protocolMismatch is the error of data from another broker that cannot be decoded. A
// request had no effect; the effect of the request behind a reply is not known.
func protocolMismatch(kind broker.Kind, err error) error {
	return &broker.Error{Kind: kind, Msg: "the brokers that share their access control do not understand each other", Err: err}
}

// remoteLeader returns the replicator if another broker decides changes, nil if this one
// does.
func (c *Control) remoteLeader() Replicator {
	if r := c.replicator.Load(); r != nil && !(*r).Leads() {
		return *r
	}
	return nil
}

// forward forwards a request to the broker that decides. When it returns a payload, the
// change is in force on this broker too.
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
		return nil, protocolMismatch(broker.Unconfirmed, err)
	case failure != nil:
		return nil, failure
	}
	if err := c.applied.wait(ctx, index); err != nil {
		return nil, &broker.Error{Kind: broker.Unconfirmed, Err: err,
			Msg: "the change was made, but is not known to be in force on this broker yet"}
	}
	return payload, nil
}

// forwardOne forwards one command of the Go API.
func (c *Control) forwardOne(ctx context.Context, r Replicator, command dynsec.Command) error {
	payload, err := c.forward(ctx, r, requestCommands, dynsec.EncodeRequest([]dynsec.Command{command}))
	if err != nil {
		return err
	}
	answers, err := dynsec.DecodeResponses(payload)
	if err != nil || len(answers) != 1 {
		return protocolMismatch(broker.Unconfirmed, err)
	}
	return answers[0].Err()
}

// forwardImport forwards a document.
func (c *Control) forwardImport(ctx context.Context, r Replicator, document io.Reader, replace bool) (report broker.ImportReport, err error) {
	kind := requestImport
	if replace {
		kind = requestReplace
	}
	content, err := io.ReadAll(document)
	if err != nil {
		return report, err
	}
	payload, err := c.forward(ctx, r, kind, content)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(payload, &report); err != nil {
		return report, protocolMismatch(broker.Unconfirmed, err)
	}
	return report, nil
}
