package embedded

import "sync/atomic"

// meters count what has passed since the start.
type meters struct {
	bytesReceived, bytesSent               atomic.Int64 // on the wire, TLS and WebSocket included
	packetsReceived, packetsSent           atomic.Int64
	publishesReceived, publishesSent       atomic.Int64
	publishesDropped                       atomic.Int64
	payloadBytesReceived, payloadBytesSent atomic.Int64
	sockets, connections                   atomic.Int64 // accepted; logged in
	connected, maximum, expired            atomic.Int64 // clients
}

// enter counts a client that was let in.
func (m *meters) enter() {
	m.connections.Add(1)
	now := m.connected.Add(1)
	for {
		high := m.maximum.Load()
		if now <= high || m.maximum.CompareAndSwap(high, now) {
			return
		}
	}
}

func (m *meters) leave() { m.connected.Add(-1) }
