// Package control implements the control topics other than dynamic security:
// inspection, client control, the topic tree, streams, bridges, clusters, the licence,
// and information about the broker. It has both sides: a broker executes requests with
// it, and a client encodes commands and decodes responses.
//
// A response is nil if the context ends before all commands were executed; some may have
// been. The package is pure except for calls of the broker. Of this module it imports
// broker and broker/dynsec only; it must not import net/http, an MQTT library or a
// database.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// The control topics. A request is published to one of them; the response is published to
// the same topic with ResponseSuffix.
const (
	BrokerTopic        = "$CONTROL/broker/v1"
	InspectTopic       = "$CONTROL/cedalo/inspect/v1"
	ClientControlTopic = "$CONTROL/cedalo/client-control/v1"
	TopicTreeTopic     = "$CONTROL/cedalo/topictree/v1"
	LicenseTopic       = "$CONTROL/cedalo/license/v1"

	ResponseSuffix = "/response"
)

// maxResponse bounds a response message, in bytes. A command whose data
// would exceed it gets an error response.
const maxResponse = 16 << 20

// refusal is the error text of a command that was not executed.
type refusal string

func (r refusal) Error() string { return string(r) }

// The texts that several commands use.
const (
	errUnknownCommand refusal = "Unknown command"
	errInternal       refusal = "Internal error"
	errTooLarge       refusal = "Answer too large, use count and offset"
	errClientID       refusal = "Invalid/missing clientid"
	errTopic          refusal = "Invalid/missing topic"
	errNoClient       refusal = "Client not found"
)

// command is the implementation of one command. A nil result is a response without data.
type command struct {
	name string
	do   func(ctx context.Context, args dynsec.Object) (data any, err error)
}

// response is one entry of a response message.
type response struct {
	Command         string          `json:"command"`
	Data            json.RawMessage `json:"data,omitempty"`
	Error           string          `json:"error,omitempty"`
	Fields          []field         `json:"fields,omitempty"` // an extension
	CorrelationData *string         `json:"correlationData,omitempty"`
}

// field is an argument that cannot be used, as in broker.Field.
type field struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// serve executes the commands of a request in order and returns the message with all
// responses; nil if the context ended before.
func serve(ctx context.Context, payload []byte, table ...command) []byte {
	requests, fault := dynsec.DecodeCommands(payload)
	answers := make([]response, 0, len(requests)+1)
	remaining := maxResponse
	for _, r := range requests {
		if ctx.Err() != nil {
			return nil
		}
		a := do(ctx, r, table)
		if remaining -= len(a.Data); remaining < 0 {
			a.Data, a.Error, remaining = nil, string(errTooLarge), 0
		}
		answers = append(answers, a)
	}
	return encodeResponses(answers, fault)
}

// encodeResponses returns the message with all responses; that to a faulty request is the last.
func encodeResponses(answers []response, fault *dynsec.Response) []byte {
	if fault != nil {
		answers = append(answers, response{Command: fault.Command, Error: fault.Error})
	}
	return encode(map[string][]response{"responses": answers})
}

func do(ctx context.Context, r dynsec.OtherCommand, table []command) response {
	a := response{Command: r.Name, CorrelationData: r.Correlation}
	for _, c := range table {
		if !strings.EqualFold(c.name, r.Name) || !isKnown(c.name) {
			continue
		}
		a.Command = c.name
		data, err := c.do(ctx, r.Args)
		switch {
		case err != nil:
			a.Error, a.Fields = text(err), fieldsOf(err)
		case data != nil:
			a.Data = encode(data)
		}
		return a
	}
	a.Error = string(errUnknownCommand)
	return a
}

// text returns the error text for the sender. It does not contain internal causes.
func text(err error) string {
	if r, ok := errors.AsType[refusal](err); ok {
		return string(r)
	}
	e, ok := errors.AsType[*broker.Error](err)
	switch {
	case !ok, e.Kind == broker.Internal:
		return string(errInternal)
	case e.Kind == broker.Unsupported:
		return string(errUnknownCommand)
	}
	return e.Msg
}

// fieldsOf returns the invalid arguments, if they are known.
func fieldsOf(err error) (list []field) {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != broker.Invalid {
		return nil
	}
	for _, f := range e.Fields {
		list = append(list, field{f.Path, f.Msg})
	}
	return list
}

// missing returns the refusal in place of an error of kind NotFound.
func missing(err error, instead refusal) error {
	if err != nil && broker.KindOf(err) == broker.NotFound {
		return instead
	}
	return err
}

// encode returns JSON without white space, with only the necessary escapes. Its
// arguments are always representable in JSON.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.Encode(v) //nolint:errcheck // see above, and writes to a buffer succeed
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
