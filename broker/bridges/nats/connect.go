package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// clientOptions returns the client's options. The client does not reconnect by itself: the engine
// does.
func clientOptions(s server, p *bridges.Problems) natsgo.Options {
	o := natsgo.GetDefaultOptions()
	o.Servers = s.Servers
	o.Name = s.ClientName
	o.AllowReconnect = false
	o.IgnoreDiscoveredServers = true // credentials are sent only to configured servers
	o.SkipHostLookup = true          // the dialer resolves names
	o.MaxPingsOut, o.PingInterval = 2, 10*time.Second
	o.NoCallbacksAfterClientClose = true
	secure := checkServers(s.Servers, p)
	o.TLSConfig = s.TLS.Config("", "connection.tls", p)
	if secure && !s.TLS.Enabled {
		p.Add("connection.tls.enabled", "must be true where a server's address begins with tls://")
	}
	o.Secure = s.TLS.Enabled
	authenticate(&o, s, p)
	return o
}

// authenticate sets the options for authentication.
func authenticate(o *natsgo.Options, s server, p *bridges.Problems) {
	if s.Credentials != nil {
		o.User, o.Password = s.Credentials.Username, s.Credentials.Password
	}
	o.Token = s.Token
	if s.NkeySeed != "" {
		public, sign, err := signer(s.NkeySeed)
		if err != nil {
			p.Add("connection.nkeySeed", "is not a seed of an nkey, which begins with SU")
		}
		o.Nkey, o.SignatureCB = public, sign
	}
	methods := 0
	for _, given := range []bool{s.Credentials != nil, s.Token != "", s.NkeySeed != ""} {
		if given {
			methods++
		}
	}
	if methods > 1 {
		p.Add("connection", "must have only one of credentials, token and nkeySeed")
	}
}

// dialer opens connections until its context ends, which also closes those whose handshake has
// not finished.
type dialer struct {
	ctx     context.Context // of the attempt; it ends with the dialer
	dial    bridges.Dial
	lastErr error // the last error
	stop    []func() bool
}

// Dial opens a connection.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.dial(d.ctx, network, address)
	if err != nil {
		d.lastErr = err
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { conn.Close() }))
	return conn, nil
}

// detach detaches the connections from the context. It reports false if that has already closed
// one.
func (d *dialer) detach() bool {
	return !slices.ContainsFunc(d.stop, func(stop func() bool) bool { return !stop() })
}

// dial connects to one of the servers.
func dial(ctx context.Context, to bridges.Dial, o natsgo.Options) (*natsgo.Conn, error) {
	d := &dialer{ctx: ctx, dial: to}
	o.CustomDialer = d
	o.Timeout = time.Minute // the context ends it earlier
	if deadline, ok := ctx.Deadline(); ok {
		o.Timeout = max(time.Millisecond, time.Until(deadline))
	}
	nc, err := o.Connect()
	kept := d.detach()
	switch {
	case err == nil && kept:
		return nc, nil
	case err == nil:
		nc.Close()
		err = ctx.Err()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, explain(err, d.lastErr)
}

// explain returns an error with a text for operators. Last is the error of the last failed
// connection, if any.
func explain(err, last error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return target.Explain(err, "no server can be reached: "+target.Reason(err))
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked),
		errors.Is(err, natsgo.ErrAccountAuthExpired):
		return target.Explain(err, "the server refuses this client: check the credentials, token or nkey")
	case errors.Is(err, natsgo.ErrNkeysNotSupported):
		return target.Explain(err, "the server knows no nkeys: use credentials or a token")
	case errors.Is(err, natsgo.ErrSecureConnWanted):
		return target.Explain(err, "the server offers no TLS: switch it off, or on at the server")
	case errors.Is(err, natsgo.ErrMaxConnectionsExceeded), errors.Is(err, natsgo.ErrMaxAccountConnectionsExceeded):
		return target.Explain(err, "the server has as many connections as it allows")
	case errors.Is(err, natsgo.ErrNoServers) && last != nil:
		return target.Explain(last, "no server can be reached: "+target.Reason(last))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, natsgo.ErrTimeout):
		return target.Explain(err, "no server answered in time: check the addresses, and whether it is a NATS server that listens there")
	case last != nil && errors.Is(err, last):
		return target.Explain(err, "no server can be reached: "+target.Reason(err))
	}
	if errors.Is(err, natsgo.ErrSecureConnRequired) {
		return target.Explain(err, "the server requires TLS: switch it on")
	}
	return target.Explain(err, "no connection to a server: "+target.Reason(err))
}
