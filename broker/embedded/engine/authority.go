package engine

import (
	"context"
	"fmt"
)

// Kind is what somebody wants to do with a topic or, where it says filter, a
// topic filter.
type Kind byte

// The kinds of right.
const (
	Send        Kind = iota // publish to a topic
	Receive                 // be sent a message of a topic
	Subscribe               // subscribe to a filter
	Unsubscribe             // unsubscribe from a filter
)

// String names the right as an operator knows it.
func (k Kind) String() string {
	return [...]string{"publish", "receive", "subscribe", "unsubscribe"}[k]
}

// Authority decides who comes in and what they may do.
type Authority interface {
	// Authenticate decides about a client that sent CONNECT. It may take its
	// time. A refusal is a *Refusal; any other error means that it could not be
	// decided.
	Authenticate(ctx context.Context, l *Login) (Admission, error)
	// Resume returns the rights of a stored session whose client is away.
	Resume(clientID, username string, anonymous bool) Rights
	// Epoch changes after every change of anybody's rights: what Allowed said
	// under an epoch is true as long as it lasts.
	Epoch() uint64
}

// Login is what a client says of itself.
type Login struct {
	Socket      *Socket
	ClientID    string
	Username    string
	HasUsername bool
	Password    []byte
	HasPassword bool
	// WhileHere returns a context that ends when the client leaves, for a log-in
	// that has to wait, and a function that must be called when it has waited.
	WhileHere func(context.Context) (context.Context, func())
}

// Admission is who a client turned out to be.
type Admission struct {
	Username  string
	Anonymous bool // no username was needed
	Rights    Rights
}

// Rights are what one client may do now. Allowed takes no lock, allocates
// nothing and always knows the latest change.
type Rights interface {
	Allowed(k Kind, topic string) bool
	// Cut reports whether a change since the log-in demands a new one.
	Cut() bool
	Release()
}

// Refusal is why a client does not get in: a reason code of MQTT 5.
type Refusal struct {
	Reason byte
	Text   string
}

// Error says why.
func (r *Refusal) Error() string { return fmt.Sprintf("refused (0x%02x): %s", r.Reason, r.Text) }

// Watcher is notified of what happens. Its methods are called on the goroutines of
// connections, so they must not block.
type Watcher interface {
	Connected(c ClientEvent)
	Disconnected(c ClientEvent, reason byte)
	Refused(c ClientEvent, reason byte, why string)
	Denied(c ClientEvent, k Kind, topic string)
	// Published sees every message that was accepted, before it is delivered.
	Published(m *Message)
}

// ClientEvent names the client that something happened to.
type ClientEvent struct {
	ClientID string
	Username string
	Address  string
}
