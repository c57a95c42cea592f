package dial

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
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
	Stage      Stage
	CertWanted bool // the broker requested a client certificate
	Err        error
}

// Error returns the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Open connects up to the point where MQTT begins. It ignores proxy settings of the
// environment. ctx bounds the opening only. certWanted is set if the broker requests a client
// certificate: under TLS 1.3 it may reject that later.
func (ep Endpoint) Open(ctx context.Context, certWanted *atomic.Bool) (net.Conn, *Failure) {
	conn, err := ep.dial(ctx)
	if err != nil {
		return nil, &Failure{Stage: StageDial, Err: err}
	}
	if ep.TLS != nil {
		secured := tls.Client(conn, observeCertificateRequest(ep.TLS, certWanted))
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, &Failure{Stage: StageTLS, CertWanted: certWanted.Load(), Err: err}
		}
		conn = secured
	}
	if !ep.ws {
		return conn, nil
	}
	ws, err := ep.upgrade(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, &Failure{Stage: StageWebSocket, CertWanted: certWanted.Load(), Err: err}
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

// observeCertificateRequest returns a configuration that also records whether a certificate
// was requested.
func observeCertificateRequest(config *tls.Config, certWanted *atomic.Bool) *tls.Config {
	c := config.Clone()
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		certWanted.Store(true)
		if len(config.Certificates) == 0 {
			return &tls.Certificate{}, nil
		}
		return &config.Certificates[0], nil
	}
	return c
}
