package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"signalbox/broker"
)

// acceptPause is how long a listener rests after a failed accept, as when the
// process is out of file descriptors.
const acceptPause = 100 * time.Millisecond

// listener is one place where clients are accepted.
type listener struct {
	id     int    // from 1, in the order of the configuration
	key    string // what stands before the names of its keys
	config ListenerConfig
	tls    *tls.Config // nil without TLS
	certs  []broker.ListenerCert

	socket net.Listener // nil until bound
	http   *http.Server // of a WebSocket listener, once bound
}

// newListeners prepares the configured listeners; it opens certificates but no
// socket.
func newListeners(c Config) ([]*listener, error) {
	var all []*listener
	if c.Listen != "" {
		plain := ListenerConfig{Protocol: protocolMQTT, Address: c.Listen}
		all = append(all, &listener{key: "broker.listen", config: plain})
	}
	for i, lc := range c.Listeners {
		all = append(all, &listener{key: fmt.Sprintf("broker.listeners[%d].", i), config: lc})
	}
	for i, l := range all {
		l.id, l.certs = i+1, []broker.ListenerCert{}
		if err := l.secure(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Check reads the files that the configuration names, as the start will; the
// error names the key.
func (c Config) Check() error {
	_, err := newListeners(c)
	return err
}

// bind opens the listener's socket.
func (l *listener) bind(b *Broker) error {
	socket, err := net.Listen("tcp", l.config.Address)
	if err != nil {
		return l.explain(err)
	}
	l.socket = &gate{Listener: socket, b: b, complain: rate.Sometimes{First: 1, Interval: time.Minute}}
	if l.config.webSocket() {
		l.http = b.webSocketServer(l)
	}
	return nil
}

// explain turns the failure to open a socket into a sentence that says what to
// do.
func (l *listener) explain(err error) error {
	advice := "check the address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = "the port is in use: stop the program that uses it or configure another port"
	case errors.Is(err, syscall.EACCES):
		advice = "the system does not let this user open the port: configure a port above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = "no interface of this machine has that address"
	}
	return fmt.Errorf("broker cannot listen on %s (%s): %s: %w", l.config.Address, l.setting(), advice, err)
}

// setting names the key that holds the address.
func (l *listener) setting() string {
	if l.key == "broker.listen" {
		return l.key
	}
	return l.key + "address"
}

// serve accepts connections until the socket is closed.
func (l *listener) serve(b *Broker) {
	if l.http != nil {
		l.http.Serve(l.secured()) //nolint:errcheck // always ErrServerClosed or a closed socket
		return
	}
	socket := l.secured()
	for {
		conn, err := socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			b.log.Warn("a connection could not be accepted", "listener", l.config.Address, "error", err)
			if !b.pause(acceptPause) {
				return
			}
		default:
			b.connect(newLink(l, conn))
		}
	}
}

// secured is the socket, with TLS where configured.
func (l *listener) secured() net.Listener {
	if l.tls == nil {
		return l.socket
	}
	return tls.NewListener(l.socket, l.tls)
}

// close stops accepting. Connections stay.
func (l *listener) close() {
	if l.http != nil {
		l.http.Close() //nolint:errcheck // nothing left to do with it
	}
	if l.socket != nil {
		l.socket.Close() //nolint:errcheck // nothing left to do with it
	}
}

// describe gives the listener as the management API shows it, with the port it
// is bound to.
func (l *listener) describe() broker.Listener {
	address := l.config.Address
	if l.socket != nil {
		address = l.socket.Addr().String()
	}
	host, port, _ := net.SplitHostPort(address) // validated
	n, _ := strconv.Atoi(port)
	protocol := "mqtt"
	if l.config.webSocket() {
		protocol = "mqtt+websockets"
	}
	return broker.Listener{
		ID: l.id, Port: n, BindAddress: host, Protocol: protocol,
		TLS: l.config.tls(), RequireCertificate: l.config.RequireCertificate, Certs: l.certs,
	}
}

// gate is a socket that lets in no more connections than the broker may have.
// One that is too many is closed at once; it is the newcomer that loses.
type gate struct {
	net.Listener
	b        *Broker
	complain rate.Sometimes
}

// Accept waits for the next connection that there is room for.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case g.b.slots <- struct{}{}:
			return g.b.newWire(conn), nil
		default:
			conn.Close() //nolint:errcheck // refused
			g.complain.Do(func() {
				g.b.log.Warn("connections are refused: broker.max_connections is reached",
					"max_connections", cap(g.b.slots))
			})
		}
	}
}

// newWire wraps an accepted connection, for which a slot is taken. It must make
// itself known as an MQTT client in time.
func (b *Broker) newWire(conn net.Conn) *wire {
	b.meters.sockets.Add(1)
	conn.SetReadDeadline(time.Now().Add(b.config.ConnectTimeout)) //nolint:errcheck // its reader will see
	return &wire{Conn: conn, meters: b.meters, patience: b.config.WriteTimeout, onClose: func() { <-b.slots }}
}

// wireOf finds the wire beneath a connection.
func wireOf(conn net.Conn) *wire {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return conn.(*wire) //nolint:forcetypeassert // every accepted connection is one
}
