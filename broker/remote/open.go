package remote

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// stage is how far an attempt to reach a broker got.
type stage int

const (
	dialling  stage = iota // name look-up and TCP
	securing               // TLS handshake
	upgrading              // WebSocket handshake
	greeting               // CONNECT sent, CONNACK awaited
	subscribing
	probing   // asking what the broker can do
	attending // it stood, and was lost
)

// failure is an attempt that ended at a stage.
type failure struct {
	stage      stage
	certWanted bool // the broker asked for a client certificate
	err        error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// open makes the connection up to where MQTT begins. It asks no proxy, whatever
// the environment says: a broker is reached directly or not at all. The
// context bounds the opening only. CertWanted is set when the broker asks for
// a client certificate, which under TLS 1.3 it may do and refuse only later.
func (ep endpoint) open(ctx context.Context, certWanted *atomic.Bool) (net.Conn, *failure) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", ep.addr)
	if err != nil {
		return nil, &failure{stage: dialling, err: err}
	}
	if ep.tls != nil {
		secured := tls.Client(conn, watched(ep.tls, certWanted))
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, &failure{stage: securing, certWanted: certWanted.Load(), err: err}
		}
		conn = secured
	}
	if !ep.ws {
		return conn, nil
	}
	ws, err := ep.upgrade(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, &failure{stage: upgrading, certWanted: certWanted.Load(), err: err}
	}
	return ws, nil
}

// upgrade makes the WebSocket handshake, and ends it with the context: the
// library looks at the deadline only.
func (ep endpoint) upgrade(ctx context.Context, conn net.Conn) (net.Conn, error) {
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
