package messaging

// GuardedBroker is a Broker to which clients also publish directly, past this service,
// and which asks a LoopGuard about what they publish.
type GuardedBroker interface {
	Broker
	// Guard sets the LoopGuard that the broker asks, until end is called. It replaces the
	// one before.
	Guard(g LoopGuard) (end func())
}

// LoopGuard keeps messages that cross bridges between brokers from coming back. Package
// broker/bridges/mqtt implements it, and the embedded engine asks it (loopguard.go). Its
// methods are called on the goroutines of publishers, of subscribers and of the store,
// Depart with the lock of a session held; they must not block. They must not change the
// properties, which are encoded as in [Message].
type LoopGuard interface {
	// Identity returns the broker's name among bridges.
	Identity() string
	// Admit reports whether to deliver a client's message whose properties list the
	// brokers that it has visited. It returns false if the message has been here before.
	Admit(topic string, properties []byte, qos byte) bool
	// Depart returns the properties with which a message is sent to a client that is a
	// bridge. The serial is that of [Message].
	Depart(topic string, properties []byte, serial uint64) []byte
	// Withdraw revokes the admission of a message that could not be stored and will be
	// published again.
	Withdraw(topic string, properties []byte)
}
