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
	"signalbox/broker/bridges/reach"
)

// clientOptions makes the client's options of what is configured. The client does
// not connect again by itself: the engine does.
func clientOptions(s server, p *bridges.Problems) natsgo.Options {
	o := natsgo.GetDefaultOptions()
	o.Servers = s.Servers
	o.Name = s.ClientName
	o.AllowReconnect = false
	o.IgnoreDiscoveredServers = true // credentials go to nobody who was not named
	o.SkipHostLookup = true          // the dialer does it
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

// authenticate says who the client is.
func authenticate(o *natsgo.Options, s server, p *bridges.Problems) {
	if s.Credentials != nil {
		o.User, o.Password = s.Credentials.Username, s.Credentials.Password
	}
	o.Token = s.Token
	if s.NkeySeed != "" {
		public, sign, err := signer(s.NkeySeed)
		if err != nil {
			p.Add("connection.nkeySeed", "is no seed of an nkey, which begins with SU")
		}
		o.Nkey, o.SignatureCB = public, sign
	}
	ways := 0
	for _, given := range []bool{s.Credentials != nil, s.Token != "", s.NkeySeed != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		p.Add("connection", "must have only one of credentials, token and nkeySeed")
	}
}

// dialer makes connections within a context, which also ends those that are not
// ready yet.
type dialer struct {
	ctx  context.Context // of the attempt; a dialer lives no longer
	to   bridges.Dial
	last error // why there was no connection
	stop []func() bool
}

// Dial makes a connection.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.to(d.ctx, network, address)
	if err != nil {
		d.last = err
		return nil, err
	}
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { conn.Close() }))
	return conn, nil
}

// release lets the connections live longer than the context. It tells whether they
// do.
func (d *dialer) release() bool {
	return !slices.ContainsFunc(d.stop, func(stop func() bool) bool { return !stop() })
}

// dial connects to one of the servers.
func dial(ctx context.Context, to bridges.Dial, o natsgo.Options) (*natsgo.Conn, error) {
	d := &dialer{ctx: ctx, to: to}
	o.CustomDialer = d
	o.Timeout = time.Minute // the context ends it earlier
	if deadline, ok := ctx.Deadline(); ok {
		o.Timeout = max(time.Millisecond, time.Until(deadline))
	}
	nc, err := o.Connect()
	kept := d.release()
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
	return nil, why(err, d.last)
}

// why makes a sentence of an error. Last is why a server was not reached, if one
// was not.
func why(err, last error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return reach.Explained(err, "no server can be reached: "+reach.Cause(err))
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked),
		errors.Is(err, natsgo.ErrAccountAuthExpired):
		return reach.Explained(err, "the server does not let this client in: check the credentials, token or nkey")
	case errors.Is(err, natsgo.ErrNkeysNotSupported):
		return reach.Explained(err, "the server knows no nkeys: use credentials or a token")
	case errors.Is(err, natsgo.ErrSecureConnWanted):
		return reach.Explained(err, "the server offers no TLS: switch it off, or on at the server")
	case errors.Is(err, natsgo.ErrMaxConnectionsExceeded), errors.Is(err, natsgo.ErrMaxAccountConnectionsExceeded):
		return reach.Explained(err, "the server has as many connections as it allows")
	case errors.Is(err, natsgo.ErrNoServers) && last != nil:
		return reach.Explained(last, "no server can be reached: "+reach.Cause(last))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, natsgo.ErrTimeout):
		return reach.Explained(err, "no server answered in time: check the addresses, and whether it is a NATS server that listens there")
	case last != nil && errors.Is(err, last):
		return reach.Explained(err, "no server can be reached: "+reach.Cause(err))
	}
	if errors.Is(err, natsgo.ErrSecureConnRequired) {
		return reach.Explained(err, "the server wants TLS: switch it on")
	}
	return reach.Explained(err, "no connection to a server: "+reach.Cause(err))
}
