// Package control is the language of the control topics beside dynamic
// security: inspection, client control, the topic tree, streams, bridges,
// clusters, the licence, and what the broker tells about itself. It has both sides: what a broker answers, and
// what somebody asks and reads of the answer.
//
// An answer is nil where the context ends before all commands were done; some
// may be done then. The package is pure but for what the broker that is asked
// does. Of this module it imports broker and broker/dynsec only; it must not
// import net/http, an MQTT library or a database.
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

// The control topics. A request is published to one of them; the answer comes
// on the same with ResponseSuffix.
const (
	BrokerTopic        = "$CONTROL/broker/v1"
	InspectTopic       = "$CONTROL/cedalo/inspect/v1"
	ClientControlTopic = "$CONTROL/cedalo/client-control/v1"
	TopicTreeTopic     = "$CONTROL/cedalo/topictree/v1"
	LicenseTopic       = "$CONTROL/cedalo/license/v1"

	ResponseSuffix = "/response"
)

// maxAnswer bounds the message that answers a request, in bytes. A command
// whose data would go beyond is answered with an error.
const maxAnswer = 16 << 20

// refusal is the text of an answer to a command that was not done.
type refusal string

func (r refusal) Error() string { return string(r) }

// The texts that several commands have.
const (
	errUnknownCommand refusal = "Unknown command"
	errInternal       refusal = "Internal error"
	errTooLarge       refusal = "Answer too large, use count and offset"
	errClientID       refusal = "Invalid/missing clientid"
	errTopic          refusal = "Invalid/missing topic"
	errNoClient       refusal = "Client not found"
)

// command is what the commands of one name do. A nil result is an answer
// without data.
type command struct {
	name string
	do   func(ctx context.Context, args dynsec.Object) (data any, err error)
}

// answer is one entry of the message that answers a request.
type answer struct {
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

// serve does the commands of a request in order and gives the message that
// answers them all; nil where the context ended before all were done.
func serve(ctx context.Context, payload []byte, table ...command) []byte {
	requests, fault := dynsec.DecodeCommands(payload)
	answers := make([]answer, 0, len(requests)+1)
	room := maxAnswer
	for _, r := range requests {
		if ctx.Err() != nil {
			return nil
		}
		a := do(ctx, r, table)
		if room -= len(a.Data); room < 0 {
			a.Data, a.Error, room = nil, string(errTooLarge), 0
		}
		answers = append(answers, a)
	}
	if fault != nil {
		answers = append(answers, answer{Command: fault.Command, Error: fault.Error})
	}
	return encode(map[string][]answer{"responses": answers})
}

func do(ctx context.Context, r dynsec.OtherCommand, table []command) answer {
	a := answer{Command: r.Name, CorrelationData: r.Correlation}
	for _, c := range table {
		if !strings.EqualFold(c.name, r.Name) {
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

// text says what an error means to the asker. What failed inside is not told.
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

// fieldsOf names the arguments that cannot be used, where that is known.
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

// missing gives the refusal in place of an error of kind NotFound.
func missing(err error, instead refusal) error {
	if err != nil && broker.KindOf(err) == broker.NotFound {
		return instead
	}
	return err
}

// encode writes JSON without white space, in which only what must be escaped
// is. There is nothing in what it is given that JSON cannot express.
func encode(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.Encode(v) //nolint:errcheck // see above, and a buffer takes everything
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
