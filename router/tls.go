package router

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"signalbox/handlers"
)

// tlsListener accepts connections and makes their TLS handshakes, each in a goroutine
// of its own. Those that agree on HTTP/2 reach net/http as a *tls.Conn, which it
// requires for that; all others as a connection that replaces net/http's own responses
// by the error object.
type tlsListener struct {
	net.Listener
	config *tls.Config
	log    *slog.Logger

	ctx      context.Context // cancelled by Close
	cancel   context.CancelFunc
	accepted chan accepted
	running  sync.WaitGroup
}

// accepted is the result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// newTLSListener starts to accept. The goroutines end with Close; wait waits for them.
func newTLSListener(l net.Listener, config *tls.Config, log *slog.Logger) *tlsListener {
	s := &tlsListener{Listener: l, config: config, log: log, accepted: make(chan accepted)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.acceptAll)
	return s
}

// Accept returns the next connection whose handshake has succeeded.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops accepting and aborts the handshakes in progress.
func (l *tlsListener) Close() error {
	l.cancel()
	return l.Listener.Close()
}

func (l *tlsListener) wait() { l.running.Wait() }

func (l *tlsListener) acceptAll() {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			l.running.Go(func() { l.secure(conn) })
		case errors.Is(err, net.ErrClosed) || !l.pass(accepted{err: err}):
			return
		}
	}
}

// pass passes a result to Accept. It reports whether that is still called.
func (l *tlsListener) pass(a accepted) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// secure makes the handshake of a connection and passes it on.
func (l *tlsListener) secure(raw net.Conn) {
	conn := tls.Server(raw, l.config)
	ctx, cancel := context.WithTimeout(l.ctx, headerTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		l.refuse(raw, err)
		return
	}
	passed := accepted{conn: conn}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		passed.conn = &securedConn{objectConn{conn}, conn}
	}
	if !l.pass(passed) {
		conn.Close() //nolint:errcheck // the service ends
	}
}

// methods are the prefixes of requests without TLS, of the length of a TLS record
// header.
var methods = []string{"GET /", "HEAD ", "POST ", "PUT /", "DELET", "PATCH", "OPTIO", "TRACE", "CONNE"}

// refuse closes a connection whose handshake has failed. A request without TLS gets a
// response.
func (l *tlsListener) refuse(raw net.Conn, err error) {
	defer raw.Close() //nolint:errcheck // the handshake has failed
	l.log.Debug("TLS handshake failed", "remote", raw.RemoteAddr().String(), "error", err)
	plain, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || plain.Conn == nil || !slices.Contains(methods, string(plain.RecordHeader[:])) {
		return
	}
	raw.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // otherwise it lasts as long as the peer wants
	raw.Write(withoutTLS)                        //nolint:errcheck // a disconnected caller needs no response
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		io.CopyN(io.Discard, raw, http.DefaultMaxHeaderBytes) //nolint:errcheck // closing with unread bytes would discard the response
	}
}

// withoutTLS is the response to a request without TLS.
var withoutTLS = withError(handlers.ErrorObject{Status: http.StatusBadRequest, Code: handlers.CodeInvalidRequest,
	Message: "the request came without TLS: begin the URL with https://"})

// securedConn is a connection with TLS on which HTTP/1 is spoken.
type securedConn struct {
	objectConn
	secured *tls.Conn
}

// ConnectionState returns what net/http puts into its requests.
func (c *securedConn) ConnectionState() tls.ConnectionState { return c.secured.ConnectionState() }
