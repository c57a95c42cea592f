// Package bridges leads the messages of one broker to the systems around it, and
// from other brokers to it: connections, each with topic mappings, a durable
// queue and a target that may be away. It implements broker.Bridges on a
// messaging.Broker, in this process or far away.
//
// What a target is, is a Kind's to know; the kinds are the packages below this
// one. What is queued is a Store's. DESIGN.md tells how a message travels and
// what is safe when.
package bridges
