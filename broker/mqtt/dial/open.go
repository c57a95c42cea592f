package dial

import (
	"context"
	"crypto/tls"
	"net"
)

// Stage is the stage that an attempt to connect has reached.
type Stage int

// The stages of a connection. Callers may define further ones.
const (
	StageDial      Stage = iota // name resolution and TCP
	StageTLS                    // TLS handshake
	StageWebSocket              // WebSocket handshake
	StageConnect                // CONNECT was sent
	StageConnected              // CONNACK was received
)

// Failure is an attempt that failed at a stage.
type Failure struct {
	Stage Stage
	Seen  *Handshake // nil if nothing was learned
	Err   error
}

// Error returns the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Open connects up to the point where MQTT begins. It ignores proxy settings of the
// environment. ctx bounds the opening only. What TLS shows is recorded in seen.
func (ep Endpoint) Open(ctx context.Context, seen *Handshake) (net.Conn, *Failure) {
	conn, err := ep.dial(ctx)
	if err != nil {
		return nil, &Failure{Stage: StageDial, Err: err}
	}
	if ep.TLS != nil {
		secured := tls.Client(conn, ep.observed(seen))
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			seen.recordUntrusted(err)
			return nil, &Failure{Stage: StageTLS, Seen: seen, Err: err}
		}
		conn = secured
	}
	if !ep.ws {
		return conn, nil
	}
	ws, err := ep.upgrade(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, &Failure{Stage: StageWebSocket, Seen: seen, Err: err}
	}
	return ws, nil
}

func (ep Endpoint) dial(ctx context.Context) (net.Conn, error) {
	if ep.Dial == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", ep.Addr)
	}
	return ep.Dial(ctx, "tcp", ep.Addr)
}

// upgrade performs the WebSocket handshake, and aborts it when ctx ends: the library respects
// the deadline only.
func (ep Endpoint) upgrade(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	ws, err := dialWebSocket(ctx, conn, ep.wsURL)
	if !stop() {
		return nil, ctx.Err()
	}
	return ws, err
}
