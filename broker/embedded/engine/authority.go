package engine

import (
	"context"
	"errors"
	"fmt"
)

// Kind is an action on a topic or a topic filter.
type Kind byte

// The kinds of right.
const (
	Send        Kind = iota // publish to a topic
	Receive                 // receive a message of a topic
	Subscribe               // subscribe to a filter
	Unsubscribe             // unsubscribe from a filter
)

// String returns the name of the right as operators know it.
func (k Kind) String() string {
	return [...]string{"publish", "receive", "subscribe", "unsubscribe"}[k]
}

// Authority authenticates clients and returns their rights.
type Authority interface {
	// Authenticate decides about a client that sent CONNECT. It may wait unless Login.AtOnce is
	// set; then it returns ErrWaits instead, and is called again on another goroutine. A refusal
	// is a *Refusal; any other error means that it could not be decided.
	Authenticate(ctx context.Context, l *Login) (Admission, error)
	// Resume returns the rights of a stored session whose client is away.
	Resume(clientID, username string, anonymous bool) Rights
	// Epoch changes after every change of rights: a result of Allowed is valid as long
	// as the epoch does not change.
	Epoch() uint64
}

// Login is the identity that a client claims in CONNECT.
type Login struct {
	Socket      *Socket
	ClientID    string
	Username    string
	HasUsername bool
	Password    []byte
	HasPassword bool
	AtOnce      bool // Authenticate must not wait
	// WhileConnected returns a context that ends when the client disconnects, for a log-in
	// that has to wait, and a function that must be called afterwards.
	WhileConnected func(context.Context) (context.Context, func())
}

// ErrWaits means that a log-in cannot be decided without waiting.
var ErrWaits = errors.New("the log-in has to wait")

// Admission is the identity of an authenticated client.
type Admission struct {
	Username  string
	Anonymous bool // without a username
	Rights    Rights
}

// Rights are what one client may do now. Allowed takes no lock, allocates nothing and
// always has the latest change.
type Rights interface {
	Allowed(k Kind, topic string) bool
	// Revoked reports whether a change since the log-in requires a new one.
	Revoked() bool
	Release()
}

// Refusal is why a client is refused: a reason code of MQTT 5.
type Refusal struct {
	Reason byte
	Text   string
}

// Error returns the reason.
func (r *Refusal) Error() string { return fmt.Sprintf("refused (0x%02x): %s", r.Reason, r.Text) }

// Watcher is notified of events. Its methods are called on the goroutines of connections,
// so they must not block.
type Watcher interface {
	Connected(c ClientEvent)
	Disconnected(c ClientEvent, reason byte)
	Refused(c ClientEvent, reason byte, why string)
	Denied(c ClientEvent, k Kind, topic string)
}

// ClientEvent is the client that an event is about.
type ClientEvent struct {
	ClientID string
	Username string
	Address  string
}
