package listen

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Counters count what has passed since the start, over all listeners. The zero
// value is ready.
type Counters struct {
	// Received and Sent are bytes on the wire, with what TLS and WebSocket add.
	// Those that pass by way of Conn.Raw are for the caller to add.
	Received, Sent atomic.Int64
	// Accepted are connections, whatever became of them.
	Accepted atomic.Int64

	mu   sync.Mutex
	lost map[string]int64
}

// Lost gives how many connections came to nothing before they were handed over,
// by the cause. Those of a limit are under its key in the configuration.
func (c *Counters) Lost() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.lost)
}

func (c *Counters) lose(cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = map[string]int64{}
	}
	c.lost[cause]++
}

// The causes why a connection comes to nothing, beside the limits of package
// guard.
const (
	causeFull      = "listener max_connections"
	causeBanned    = "ban"
	causeProxy     = "PROXY header"
	causeTLS       = "TLS"
	causeWebSocket = "WebSocket"
	causeGone      = "gone"   // the peer
	causeAccept    = "accept" // of log lines only: there was no connection
)

// loss is a connection that came to nothing.
type loss struct {
	cause string
	err   error
}

// Error gives what went wrong.
func (l *loss) Error() string { return l.cause + ": " + l.err.Error() }

// Unwrap gives what went wrong.
func (l *loss) Unwrap() error { return l.err }
