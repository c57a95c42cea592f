package dial

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// Stage is how far an attempt to reach a broker got.
type Stage int

// The stages up to the log-in. Whoever goes on from there has more.
const (
	Dialling  Stage = iota // name look-up and TCP
	Securing               // TLS handshake
	Upgrading              // WebSocket handshake
	Greeting               // CONNECT sent, CONNACK awaited
	Standing               // the log-in has succeeded
)

// Failure is an attempt that ended at a stage.
type Failure struct {
	Stage      Stage
	CertWanted bool // the broker asked for a client certificate
	Err        error
}

// Error gives the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Open makes the connection up to where MQTT begins. It asks no proxy, whatever
// the environment says: a broker is reached directly or not at all. The
// context bounds the opening only. CertWanted is set when the broker asks for
// a client certificate, which under TLS 1.3 it may do and refuse only later.
func (ep Endpoint) Open(ctx context.Context, certWanted *atomic.Bool) (net.Conn, *Failure) {
	conn, err := ep.dial(ctx)
	if err != nil {
		return nil, &Failure{Stage: Dialling, Err: err}
	}
	if ep.TLS != nil {
		secured := tls.Client(conn, watched(ep.TLS, certWanted))
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, &Failure{Stage: Securing, CertWanted: certWanted.Load(), Err: err}
		}
		conn = secured
	}
	if !ep.ws {
		return conn, nil
	}
	ws, err := ep.upgrade(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, &Failure{Stage: Upgrading, CertWanted: certWanted.Load(), Err: err}
	}
	return ws, nil
}

func (ep Endpoint) dial(ctx context.Context) (net.Conn, error) {
	if ep.Dial == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", ep.Addr)
	}
	return ep.Dial(ctx, "tcp", ep.Addr)
}

// upgrade makes the WebSocket handshake, and ends it with the context: the
// library looks at the deadline only.
func (ep Endpoint) upgrade(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	ws, err := dialWebSocket(ctx, conn, ep.wsURL)
	if !stop() {
		return nil, ctx.Err()
	}
	return ws, err
}

// watched is the configuration that also notes that a certificate was wanted.
func watched(config *tls.Config, certWanted *atomic.Bool) *tls.Config {
	own := config.Clone()
	own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		certWanted.Store(true)
		if len(config.Certificates) == 0 {
			return &tls.Certificate{}, nil
		}
		return &config.Certificates[0], nil
	}
	return own
}
