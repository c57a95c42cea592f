package embedded

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/broker/embedded/poll"
	"signalbox/broker/thresholds"
)

// openListeners prepares the listeners; it reads certificates but opens no socket.
func (b *Broker) openListeners() (*listen.Set, error) {
	config := b.config.Limits
	config.MaxConnections = b.config.MaxConnections
	b.limits = limits.New(config, b.now)
	return listen.New(b.config.listeners(), listen.Options{
		Timeout: b.config.ConnectTimeout, Limits: b.limits, Banned: b.isBanned,
		Counters: &b.traffic, Log: b.log, Now: b.now, Watch: b.watch,
	})
}

// watch leaves accepting to the engine.
func (b *Broker) watch(socket *poll.Listener, accept func() (removed func())) (stop func()) {
	return b.engine.Watch(socket, accept)
}

// isBanned reports whether an address is banned.
func (b *Broker) isBanned(addr netip.Addr) bool {
	_, banned := b.bans.Banned("", "", addr)
	return banned
}

// Check reads the files that the configuration names, as the start will; the error names
// the key.
func (c Config) Check() error {
	_, err := listen.New(c.listeners(), listen.Options{Limits: limits.New(c.Limits, nil)})
	return err
}

// serveConn passes a connection to the engine, which serves it until its end.
func (b *Broker) serveConn(c *listen.Conn) {
	host, port := c.Listener().Bound()
	s := &engine.Socket{
		Conn: c, OnConnect: c.ConnectReceived, Reserve: c.Reserve, AwaitEnd: c.AwaitEnd,
		IP: c.Addr(), Protocol: "MQTT", Identity: c.Identity(), AdminOnly: c.Listener().AdminOnly(),
		Listener: engine.Listener{Port: port, BindAddress: host},
	}
	s.Address = shownAddress(s.IP)
	if c.Watched() {
		s.Polled = c.Take()
	} else {
		addLayers(s, c)
	}
	b.engine.Serve(s)
}

// addLayers adds what is needed of a connection that the runtime polls.
func addLayers(s *engine.Socket, c *listen.Conn) {
	if s.Raw = c.Raw(); s.Raw == nil {
		s.Wait, s.Descriptor = c.Wait, c.Descriptor()
	} else {
		s.CloseDescriptor = c.CloseDescriptor
	}
	if c.WebSocket() {
		s.Protocol = "MQTT-WS"
	}
	if c.Encrypted() {
		s.TLS = c.TLS
	}
}

// shownAddress returns a client's address without its port, as Mosquitto shows it.
func shownAddress(a netip.Addr) string {
	if a.IsValid() {
		return a.String()
	}
	return "unix"
}

// ListListeners returns the listeners with the ports they are bound to and their
// certificates.
func (b *Broker) ListListeners(context.Context) ([]broker.Listener, error) {
	var list []broker.Listener
	for _, l := range b.listeners.Listeners() {
		list = append(list, l.Describe())
	}
	return list, nil
}

// certificateWarning returns which certificate of a listener expires first, if that is soon or was
// already; otherwise nil.
func (b *Broker) certificateWarning() error {
	now := b.now()
	var first broker.ListenerCert
	for _, l := range b.listeners.Listeners() {
		for _, c := range l.Describe().Certs {
			if first.NotAfter == 0 || c.NotAfter < first.NotAfter {
				first = c
			}
		}
	}
	end := time.UnixMilli(first.NotAfter)
	if first.NotAfter == 0 || end.Sub(now) >= thresholds.CertificateDays*24*time.Hour {
		return nil
	}
	day := end.UTC().Format(time.DateOnly)
	if !end.After(now) {
		return fmt.Errorf("the certificate in %s, of a listener, has expired on %s: renew it", first.Filename, day)
	}
	return fmt.Errorf("the certificate in %s, of a listener, expires on %s: renew it", first.Filename, day)
}

// ListenerCertificate returns the certificates that a listener presents to clients.
func (b *Broker) ListenerCertificate(_ context.Context, listenerID int) ([]byte, error) {
	for _, l := range b.listeners.Listeners() {
		if l.Describe().ID != listenerID {
			continue
		}
		if chain := l.CertificateChain(); chain != nil {
			return chain, nil
		}
		return nil, &broker.Error{Kind: broker.NotFound, Op: "getListenerCertificate", Msg: "the listener has no certificate, because it does not use TLS"}
	}
	return nil, &broker.Error{Kind: broker.NotFound, Op: "getListenerCertificate", Msg: "the broker has no listener with this id"}
}

// Addrs returns the addresses of the listeners as bound, in the order of the configuration:
// broker.listen first.
func (b *Broker) Addrs() []string {
	var addrs []string
	for _, l := range b.listeners.Listeners() {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

// ReloadCertificates reads the certificates of all listeners again.
func (b *Broker) ReloadCertificates() { b.listeners.ReloadCertificates() }
