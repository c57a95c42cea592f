// Package listen accepts clients' connections and hands over streams that are
// ready for MQTT, with what is known about them: where they come from, by which
// certificate, through which listener. Everything that stands between a socket
// and MQTT is here: limits, PROXY headers, TLS, WebSocket.
//
// It must not import any package of this module but broker and package guard,
// nor a database or an MQTT library: it knows nothing of packets. DESIGN.md
// tells the way of a connection and what a peer can cost that stalls on it.
package listen
