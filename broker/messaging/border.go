package messaging

import "context"

// Guarded is a Broker that clients also publish to past this service, and that
// can have a Border looked after.
type Guarded interface {
	Broker
	// Guard has a border looked after, until end. There is one at a time: the last.
	Guard(b Border) (end func())
}

// Border is where messages come in that have crossed bridges between brokers. Its
// methods must not wait.
type Border interface {
	// Identity is what the broker is called among bridges.
	Identity() string
	// Admit is given a message of a client that tells of bridges, and says whether
	// it is to be delivered.
	Admit(m *Message) bool
	// Depart gives the properties with which a message goes to a bridge that takes
	// it from the broker as a client.
	Depart(m *Message) []byte
	// Withdraw takes back the admittance of a message that came to nothing and will
	// come again.
	Withdraw(m *Message)
}

// Telling is a Broker that tells when it has stored what is published.
type Telling interface {
	Broker
	// PublishStored publishes messages in order and waits until each is stored for
	// everybody who is to get it. It notes in errs, as long as messages, which the
	// broker did not take. The error is the context's; what became of the messages
	// is not known then.
	PublishStored(ctx context.Context, messages []Message, errs []error) error
	// Serving waits until the broker serves clients, which another node of its
	// cluster may do in its place. The context that it gives ends when it no longer
	// does. The error is the context's, or that the broker is being closed.
	Serving(ctx context.Context) (serving context.Context, err error)
}
