package listen

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"time"

	"signalbox/broker/embedded/limits"
)

var (
	errUntrustedProxy = errors.New("the address is not one of trusted_proxies")
	errBanned         = errors.New("the address is banned")
	errFull           = errors.New("max_connections of the listener is reached")
)

// enter acquires the places of a new connection, or returns the loss. It does not block. If
// a proxy is expected, the client's address is checked later.
func (c *Conn) enter() error {
	l := c.listener
	if limit := int64(l.config.MaxConnections); l.open.Add(1) > limit && limit > 0 {
		l.open.Add(-1)
		return &loss{causeFull, errFull}
	}
	c.counted = true
	admission, err := l.options.Limits.Admit(c.evict)
	if err != nil {
		return refused(err)
	}
	c.admission = admission
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

// refused wraps the error of a limit as a loss.
func refused(err error) error {
	if r, ok := errors.AsType[limits.Refusal](err); ok {
		return &loss{string(r), err}
	}
	return err
}

// identify checks whether the client's address is admitted.
func (c *Conn) identify() error {
	addr := c.Addr()
	if banned := c.listener.options.Banned; banned != nil && addr.IsValid() && banned(addr) {
		return &loss{causeBanned, errBanned}
	}
	return refused(c.admission.SetAddress(addr))
}

// handshake completes all stages before MQTT. One deadline covers all of them; eviction or
// the closing of the listener interrupts it.
func (c *Conn) handshake() error {
	if err := c.socket.SetDeadline(c.deadline); err != nil {
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

// readProxy reads the PROXY header and checks the client that it names.
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
