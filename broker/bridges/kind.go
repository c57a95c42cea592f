package bridges

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

// Kind is a kind of bridge. All methods are safe for concurrent use.
type Kind interface {
	// ID is the bridge's id, as in "http-bridge".
	ID() string
	// Schema gives what is particular to the kind in its configuration.
	Schema() Schema
	// Compile makes a connector of a connection whose document keeps to the
	// schema. It connects to nothing. It finds everything that is wrong.
	Compile(c *Connection) (Connector, Problems)
}

// Schema holds the JSON Schemas (2020-12) of a kind. Each describes an object;
// those that are nil add nothing. They may refer to "#/$defs/tls" and the other
// definitions of common.json. A property with "writeOnly": true is a secret: it is
// masked when read. One with "x-address": true says where secrets are sent to:
// when it changes, masked secrets have to be given anew.
type Schema struct {
	Title       string          // of the whole document
	Description string          //
	Connection  json.RawMessage // the member "connection" of a connection
	Options     json.RawMessage // what its "options" have beside those that all kinds have
	Mapping     json.RawMessage // what its "topicMappings" have beside name, mqttTopics and, with Records, schemaMapping
	Records     bool            // messages become records: there are schemaMappings
}

// Connection is what a Connector is made of.
type Connection struct {
	Name     string
	Document json.RawMessage // the connection's part of the document, its secrets open
	// Records are the schema mapping of each topic mapping by the name of that;
	// mapping.Default() where it names none.
	Records map[string]*mapping.Mapping
	// Local is the broker that the bridge belongs to; nil while a document is only
	// looked at.
	Local messaging.Broker
	// Identity names that broker; it is the same in every run and no other has it.
	Identity string
	// Owner names what has the connection: it is the same in every run, and no other
	// broker of this service, nor any of another service, has it, also where two of
	// them are the same broker.
	Owner string
	// Trial is set where the connection is made only to see whether it can be: it
	// must not disturb the one that is there, and delivers nothing.
	Trial bool
	// Timeout is how long Deliver may take for a batch; 0 is not bounded.
	Timeout time.Duration
	// Meter counts what the engine cannot see. Never nil.
	Meter *Meter
	// Dial opens every network connection to the target, and refuses those that this
	// service must not open; nil opens any.
	Dial Dial
	// Now is the clock of messages' times; nil is time.Now.
	Now func() time.Time
}

// Dial opens a network connection to a host and port. A name is looked up by it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext opens a network connection by Dial.
func (c *Connection) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if c.Dial == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return c.Dial(ctx, network, address)
}

// Clock returns Now, which is never nil then.
func (c *Connection) Clock() func() time.Time {
	if c.Now == nil {
		return time.Now
	}
	return c.Now
}

// Connector is one connection to a target. The engine calls Connect, then Deliver
// and Check as long as they succeed, then Connect again; one call at a time, and
// Close at the end, once.
type Connector interface {
	// Connect reaches the target, within the context. The error is a sentence for
	// an operator which names the cause and what to do, without secrets.
	Connect(ctx context.Context) error
	// Deliver hands over messages, in the order of each topic, each by a topic
	// mapping that the connection has, and notes in
	// results (as long as the batch, all Pending) what became of each. An error
	// says why those that are still Pending are to be tried again: a *Lost where
	// the connection has to be made anew first. Where Pending results have reasons,
	// those without were not tried. Without an error and reasons the rest is tried
	// again at once, if anything became of the others.
	Deliver(ctx context.Context, batch []*Entry, results []Result) error
	// Check tells whether the target is still there. It is called now and then
	// while there is nothing to deliver.
	Check(ctx context.Context) error
	// Close gives everything back, also where Connect was never called. After it
	// nothing runs any more.
	Close(ctx context.Context) error
}

// Watched is a Connector that notices by itself when its connection breaks or
// comes back, where Check is called at once.
type Watched interface {
	Connector
	// Changed gives a channel that is sent to, without waiting, at such a moment.
	Changed() <-chan struct{}
}

// Selective is a Connector that does not take the messages of mqttTopics as they
// stand. Its methods are called at any time, also before Connect and after Close.
type Selective interface {
	Connector
	// Filters gives what is taken from the broker for a topic mapping; none where
	// nothing is.
	Filters(mapping string) []string
	// Enter is given a message that a topic mapping takes, before it is queued. It
	// may change its Properties, and tells whether it is to be queued at all. It
	// must not wait.
	Enter(mapping string, m *messaging.Message) bool
	// Retained tells whether what the broker retains when a topic mapping is made,
	// or gets another filter, is to be taken too, with RETAIN.
	Retained(mapping string) bool
}

// Resident is a Kind that has something to do at every broker, whether or not
// there are connections.
type Resident interface {
	Kind
	// Open begins at a broker; identity is that of Connection. It does not wait.
	Open(local messaging.Broker, identity string) (end func())
}

// Lost is the error of a Deliver or Check that found the connection broken.
type Lost struct{ Err error }

// Error gives the cause.
func (l *Lost) Error() string { return l.Err.Error() }

// Unwrap gives the cause.
func (l *Lost) Unwrap() error { return l.Err }

// Entry is a message in the queue of a connection.
type Entry struct {
	ID       uint64 // its place in the queue; entries are delivered in the order of their IDs
	Mapping  string // name of the topic mapping by which it came
	Attempts int    // how often its delivery failed
	messaging.Message
	// MessageID is the same whenever the entry is delivered, and no other entry of
	// any signalbox has it: targets may know a repetition by it.
	MessageID string
}

// Seen gives the entry as mappings and templates see it.
func (e *Entry) Seen() *mapping.Message {
	return &mapping.Message{Message: &e.Message, MessageID: e.MessageID}
}

// Result is what became of an entry. The zero Result is Pending.
type Result struct {
	State State
	// Reason says in a sentence why a Rejected entry is not taken, or what keeps a
	// Pending one. It holds nothing of what the target answered, which it may have
	// told this service only: the beginning of that is Answer, and shown only to those
	// who may edit.
	Reason, Answer string
}

// Answered is an error of a connector that knows what the target answered, "" for
// nothing. Its sentence holds nothing of that, as Reason of a Result does.
type Answered interface {
	error
	Answer() string
}

// answerOf returns what a target answered, as far as an error knows it.
func answerOf(err error, secrets []string) string {
	if a, ok := errors.AsType[Answered](err); ok {
		return scrub(a.Answer(), secrets)
	}
	return ""
}

// State is how far the delivery of an entry is.
type State int

// The states.
const (
	Pending   State = iota // not delivered, to be tried again
	Delivered              // the target has it
	Rejected               // the target will not take it, however often it is tried
	Skipped                // it has been where it was to go; not delivered, and done with
)

// Problem is what is wrong at a place of a document. Path is as in
// "connection.port" or "topicMappings[0].target", relative to the connection.
type Problem struct{ Path, Msg string }

// Problems are all that was found.
type Problems []Problem

// Add notes a problem.
func (p *Problems) Add(path, msg string) { *p = append(*p, Problem{path, msg}) }
