// Package listen accepts clients' connections and hands over byte streams that are ready
// for MQTT, with what is known about them: the peer's address, its certificate, the
// listener. Everything between a socket and MQTT is here: limits, PROXY headers, TLS,
// WebSocket.
//
// It must not import any package of this module but broker and packages limits and poll, nor a
// database or an MQTT library: it does not parse packets. DESIGN.md describes the stages of
// a connection and what a peer that stalls at one of them can cost.
package listen
