package listen

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"time"

	"signalbox/broker/embedded/guard"
)

var (
	errUntrustedProxy = errors.New("the address is not one of trusted_proxies")
	errBanned         = errors.New("the address is banned")
	errFull           = errors.New("max_connections of the listener is reached")
)

// enter gives a new connection its places, or says why there is none. It does
// not wait. Where a proxy is between, the client is known later.
func (c *Conn) enter() error {
	l := c.listener
	if most := int64(l.config.MaxConnections); l.open.Add(1) > most && most > 0 {
		l.open.Add(-1)
		return &loss{causeFull, errFull}
	}
	c.slot = true
	ticket, err := l.options.Limits.Enter(c.giveWay)
	if err != nil {
		return refused(err)
	}
	c.ticket = ticket
	if !l.config.ProxyProtocol {
		return c.identify()
	}
	if addr := c.Addr(); l.config.Protocol != Unix && !slices.ContainsFunc(l.trusted, contains(addr)) {
		return &loss{causeProxy, errUntrustedProxy}
	}
	return nil
}

func contains(addr netip.Addr) func(netip.Prefix) bool {
	addr = addr.WithZone("")
	return func(p netip.Prefix) bool { return p.Contains(addr) }
}

// refused is the loss by a limit.
func refused(err error) error {
	if r, ok := errors.AsType[guard.Refusal](err); ok {
		return &loss{string(r), err}
	}
	return err
}

// identify asks whether the client's address may come in.
func (c *Conn) identify() error {
	addr := c.Addr()
	if banned := c.listener.options.Banned; banned != nil && addr.IsValid() && banned(addr) {
		return &loss{causeBanned, errBanned}
	}
	return refused(c.ticket.From(addr))
}

// handshake goes through all that comes before MQTT. The deadline holds for
// everything together; a limit or the end of the listener cuts it short.
func (c *Conn) handshake() error {
	if err := c.socket.SetDeadline(c.until); err != nil {
		return err
	}
	config := c.listener.config
	if config.ProxyProtocol {
		if err := c.readProxy(); err != nil {
			return err
		}
	}
	if config.tls() {
		if err := c.encrypt(); err != nil {
			return &loss{causeTLS, err}
		}
	}
	if config.webSocket() {
		if err := upgrade(c.Conn, config); err != nil {
			return &loss{causeWebSocket, err}
		}
		c.Conn = &frames{Conn: c.Conn}
	}
	return c.SetWriteDeadline(time.Time{})
}

// readProxy reads the proxy's header and asks about the client that it names.
func (c *Conn) readProxy() error {
	remote, err := readProxyHeader(c.socket)
	if err != nil {
		return &loss{causeProxy, err}
	}
	if remote != nil {
		c.remote = remote
	}
	return c.identify()
}

// encrypt does the TLS handshake.
func (c *Conn) encrypt() error {
	c.secured = tls.Server(c.socket, c.listener.certificates.get().tls)
	c.Conn = &encrypted{Conn: c.secured}
	if err := c.secured.Handshake(); err != nil {
		return err
	}
	var err error
	c.identity, err = identityOf(c.listener.config.CertificateUsername, c.secured.ConnectionState())
	return err
}
