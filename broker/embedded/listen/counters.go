package listen

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Counters count events since the start, over all listeners. The zero value is ready for
// use.
type Counters struct {
	// Received and Sent are bytes on the wire, including what TLS and WebSocket add. The
	// caller adds those that it transfers through Conn.Raw.
	Received, Sent atomic.Int64
	// Accepted counts accepted connections, whatever their outcome.
	Accepted atomic.Int64

	mu   sync.Mutex
	lost map[string]int64
}

// Lost returns the number of connections that failed before they were handed over, by the
// cause. Those refused by a limit are under its configuration key.
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

// The causes for which a connection fails, in addition to the limits of package limits.
const (
	causeFull      = "listener max_connections"
	causeBanned    = "ban"
	causeProxy     = "PROXY header"
	causeTLS       = "TLS"
	causeWebSocket = "WebSocket"
	causeGone      = "gone"   // the peer
	causeAccept    = "accept" // of log lines only: there was no connection
)

// loss is the error of a connection that failed.
type loss struct {
	cause string
	err   error
}

// Error returns the cause and the error.
func (l *loss) Error() string { return l.cause + ": " + l.err.Error() }

// Unwrap returns the error.
func (l *loss) Unwrap() error { return l.err }
