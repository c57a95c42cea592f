package router

import (
	"net/http"
	"time"

	"signalbox/broker"
)

// eventMedia is the media type of Server-Sent Events.
const eventMedia = "text/event-stream"

// eventTimes are the times of a stream of events. An intermediary may close a connection that
// is silent for a minute or less, and the session of a caller may end while the stream is open.
type eventTimes struct {
	write     time.Duration // of one write
	heartbeat time.Duration
	admit     time.Duration // between two checks of the caller
}

// defaultEventTimes are the times of the product.
var defaultEventTimes = eventTimes{write: 10 * time.Second, heartbeat: 15 * time.Second, admit: 5 * time.Second}

// respondEvents writes the events of a stream until it ends, the caller disconnects or is no
// longer admitted, or the server stops. Each write, the end of the response included, has its
// own deadline instead of the server's; a read deadline would count as a disconnection.
func (rt *router) respondEvents(w http.ResponseWriter, r *http.Request, events eventStream, admit func() error) {
	defer events.Close()
	out := &eventWriter{w: w, c: http.NewResponseController(w), time: rt.times.write}
	defer out.limit()
	if out.begin() == nil && r.Method != http.MethodHead {
		rt.followEvents(r.Context().Done(), out, events, admit)
	}
}

// followEvents writes events until there is a reason to end. Its callers and itself have
// little on the stack: the goroutine waits here, and the runtime does not shrink a stack of
// 16 KiB of which a quarter is in use.
func (rt *router) followEvents(left <-chan struct{}, out *eventWriter, events eventStream, admit func() error) {
	again, heartbeat := time.NewTicker(rt.times.admit), time.NewTicker(rt.times.heartbeat)
	defer again.Stop()
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-events.Ready():
			err = out.send(events.Take())
		case <-heartbeat.C:
			err = out.beat()
		case <-again.C:
			err = admit()
		case <-events.Ended():
			return
		case <-rt.stopping:
			return
		case <-left:
			return
		}
		if err != nil {
			return
		}
	}
}

// eventWriter sends what belongs together at once, and within a time.
type eventWriter struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	time time.Duration
}

// begin sends the header and how long a browser waits before it connects again.
func (e *eventWriter) begin() error {
	e.c.SetReadDeadline(time.Time{}) //nolint:errcheck // a connection without deadlines needs none
	e.w.Header().Set("Content-Type", eventMedia)
	e.w.Header().Set("X-Accel-Buffering", "no") // or nginx collects events before it forwards them
	e.w.WriteHeader(http.StatusOK)
	return e.write([]byte("retry: 3000\n\n"))
}

// beat sends a comment, which shows that the stream is open.
func (e *eventWriter) beat() error { return e.write([]byte(":\n\n")) }

// send sends events. Their data, which has no line break, is that of all streams: it is not
// copied.
func (e *eventWriter) send(events []broker.Event) error {
	parts := make([][]byte, 0, 3*len(events))
	for _, event := range events {
		parts = append(parts, []byte("event: "+event.Type+"\ndata: "), event.Data, []byte("\n\n"))
	}
	return e.write(parts...)
}

// limit sets the deadline of what is written next.
func (e *eventWriter) limit() {
	e.c.SetWriteDeadline(time.Now().Add(e.time)) //nolint:errcheck // a connection without deadlines needs none
}

// write sends parts. There is no deadline until the next ones: with HTTP/2 it would reset a
// stream that has nothing to send.
func (e *eventWriter) write(parts ...[]byte) error {
	e.limit()
	for _, part := range parts {
		if _, err := e.w.Write(part); err != nil {
			return err
		}
	}
	if err := e.c.Flush(); err != nil {
		return err
	}
	e.c.SetWriteDeadline(time.Time{}) //nolint:errcheck // as above
	return nil
}
