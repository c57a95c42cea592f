package bridges

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

// Kind is a kind of bridge. All methods are safe for concurrent use.
type Kind interface {
	// ID is the bridge's id, as in "http-bridge".
	ID() string
	// Schema returns the schema that is specific to the kind.
	Schema() Schema
	// Compile creates a connector from a connection whose document satisfies the schema. It does
	// not connect. It returns all problems.
	Compile(c *Connection) (Connector, Problems)
}

// Schema holds the JSON Schemas (2020-12) of a kind. Each describes an object; nil adds nothing.
// They may refer to "#/$defs/tls" and the other definitions of common.json. A property with
// "writeOnly": true is a secret, which is masked when it is read. One with "x-address": true
// determines where secrets are sent: if it changes, masked secrets must be entered again.
type Schema struct {
	Title       string          // of the whole document
	Description string          //
	Connection  json.RawMessage // the member "connection" of a connection
	Options     json.RawMessage // members of "options" in addition to those of all kinds
	Mapping     json.RawMessage // members of "topicMappings" in addition to name, mqttTopics and, with Records, schemaMapping
	Records     bool            // messages become records: the document has schemaMappings
}

// Connection is the input of Kind.Compile.
type Connection struct {
	Name     string
	Document json.RawMessage // the connection's part of the document, with secrets in plain text
	// Records maps topic mappings to their schema mappings; mapping.Default() if they have none.
	Records map[string]*mapping.Mapping
	// Local is the broker that the bridge belongs to; nil while a document is only validated.
	Local messaging.Broker
	// Identity is the broker's globally unique name, the same in every run.
	Identity string
	// Owner is the globally unique name of the owner of the connection, the same in every run.
	// Brokers of this and other services have different owners, even if two of them are the same
	// broker.
	Owner string
	// Trial is set for a connection that is only tested: it must not disturb the one in force,
	// and delivers nothing.
	Trial bool
	// Timeout is the timeout of Deliver for a batch; 0 for none.
	Timeout time.Duration
	// Meter counts events that the engine does not observe. It is never nil.
	Meter *Meter
	// Dial opens every network connection to the target, and refuses those that this service must
	// not open; nil permits any.
	Dial Dial
	// Now is the clock of messages' times; nil for time.Now.
	Now func() time.Time
}

// Dial opens a network connection to a host and port. It resolves names.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext opens a network connection with Dial.
func (c *Connection) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if c.Dial == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return c.Dial(ctx, network, address)
}

// Clock returns Now, or time.Now if that is nil.
func (c *Connection) Clock() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

// Connector is a connection to a target. The engine calls Connect, then Deliver and Check as long
// as they succeed, then Connect again; one call at a time, and finally Close, once.
type Connector interface {
	// Connect connects to the target. The error is a text for operators with the cause and what
	// to do, without secrets.
	Connect(ctx context.Context) error
	// Deliver delivers messages, in the order of each topic, each for an existing topic mapping,
	// and sets results, which has the length of the batch and is initially Pending. The error is
	// the reason why entries that are still Pending must be retried: a *Lost if the connection
	// must be made again first. If Pending results have reasons, those without were not tried.
	// Without an error and reasons the rest is retried at once, if others have a result.
	Deliver(ctx context.Context, batch []*Entry, results []Result) error
	// Preview returns what Deliver would send for an entry, without sending it. It needs no
	// connection. The error is the reason why the entry would be rejected.
	Preview(e *Entry) (Preview, error)
	// Check reports an error if the target is unavailable. It is called now and then while there
	// is nothing to deliver.
	Check(ctx context.Context) error
	// Close releases everything, even if Connect was never called. No goroutine runs after it.
	Close(ctx context.Context) error
}

// Watched is a Connector that notices when its connection breaks or recovers, upon which Check is
// called at once.
type Watched interface {
	Connector
	// Changed returns a channel that receives, without blocking the sender, at such a moment.
	Changed() <-chan struct{}
}

// Selective is a Connector that determines itself which messages it takes. Its methods may be
// called at any time, even before Connect and after Close.
type Selective interface {
	Connector
	// Filters returns the local filters of a topic mapping; none if it takes nothing.
	Filters(mapping string) []string
	// Enter is called for a message of a topic mapping before it is queued. It may change its
	// Properties, and reports whether to queue it. It must not wait.
	Enter(mapping string, m *messaging.Message) bool
	// Retained reports whether retained messages are to be taken, with RETAIN, for a new topic
	// mapping or filter.
	Retained(mapping string) bool
}

// BrokerKind is a Kind that does something at every broker, even without connections.
type BrokerKind interface {
	Kind
	// Open starts at a broker; identity is that of Connection. It does not wait.
	Open(local messaging.Broker, identity string) (end func())
}

// Lost is the error of a Deliver or Check that found the connection broken.
type Lost struct{ Err error }

// Error returns the cause.
func (l *Lost) Error() string { return l.Err.Error() }

// Unwrap returns the cause.
func (l *Lost) Unwrap() error { return l.Err }

// Entry is a message in the queue of a connection.
type Entry struct {
	ID       uint64 // position in the queue; entries are delivered in the order of their IDs
	Mapping  string // name of the topic mapping that matched
	Attempts int    // number of failed deliveries
	messaging.Message
	// MessageID is the same for every delivery of the entry, and globally unique: targets may
	// detect duplicates by it.
	MessageID string
}

// MappingMessage returns the message for mappings and templates.
func (e *Entry) MappingMessage() *mapping.Message {
	return &mapping.Message{Message: &e.Message, MessageID: e.MessageID}
}

// Preview is what an entry becomes. It has no secrets of the connection.
type Preview struct {
	Destination string // within the target, such as a topic, a table, or a method and a URL
	Payload     []byte
	Attributes  []broker.BridgeAttribute // what is sent beside the payload, such as headers
}

// AddAttribute adds an attribute, shortened to what a preview shows, unless there are as many
// as that shows already.
func (p *Preview) AddAttribute(name string, value []byte) {
	if len(p.Attributes) == maxAttributes {
		return
	}
	a := broker.BridgeAttribute{}
	a.Name, _, _ = broker.ShowPayload([]byte(name), broker.PreviewLimit)
	a.Value, a.Encoding, a.Truncated = broker.ShowPayload(value, broker.PreviewLimit)
	p.Attributes = append(p.Attributes, a)
}

// Result is the outcome of an entry. The zero Result is Pending.
type Result struct {
	State State
	// Reason is the text why a Rejected entry was refused, or why a Pending one was not
	// delivered. It contains nothing that the target sent, which may be confidential: the
	// beginning of that is Response, and shown to editors only.
	Reason, Response string
}

// ResponseError is an error of a connector that knows what the target sent, "" for nothing. Its text
// contains nothing of that, like the Reason of a Result.
type ResponseError interface {
	error
	Response() string
}

// responseOf returns what a target sent, as far as an error knows it.
func responseOf(err error, secrets []string) string {
	if a, ok := errors.AsType[ResponseError](err); ok {
		return redact(a.Response(), secrets)
	}
	return ""
}

// State is the state of an entry's delivery.
type State int

// States of a delivery.
const (
	Pending   State = iota // not delivered, to be retried
	Delivered              // the target has it
	Rejected               // the target will never accept it
	Skipped                // not delivered, because the target has it already; done
)

// Problem is a problem at a path of a document, such as "connection.port" or
// "topicMappings[0].target", relative to the connection.
type Problem struct{ Path, Msg string }

// Problems is a list of problems.
type Problems []Problem

// Add adds a problem.
func (p *Problems) Add(path, msg string) { *p = append(*p, Problem{path, msg}) }
