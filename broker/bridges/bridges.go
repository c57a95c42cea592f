// Package bridges sends the messages of one broker to other systems, and receives messages of
// other brokers: it manages connections, each with topic mappings, a durable queue and a target
// that may be unavailable. It implements broker.Bridges on a messaging.Broker, local or remote.
//
// A Kind knows one kind of target; the kinds are the packages below this one. A Store stores the
// queues. DESIGN.md describes the path of a message and what is durable when.
package bridges
