// Package dial opens connections to brokers over TCP, TLS and WebSockets, as a URL specifies,
// and explains failures in sentences for operators.
//
// Of this module it imports only broker and broker/outbound. It must not import net/http or an
// MQTT library.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"signalbox/broker"
)

// scheme is the meaning of a URL's scheme: the default port, and whether WebSockets are between
// TCP and MQTT. Which of them use TLS is known to broker.SchemeUsesTLS.
type scheme struct {
	port string
	ws   bool
}

var schemes = map[string]scheme{
	"mqtt":  {port: "1883"},
	"tcp":   {port: "1883"},
	"mqtts": {port: "8883"},
	"ssl":   {port: "8883"},
	"ws":    {port: "80", ws: true},
	"wss":   {port: "443", ws: true},
}

// Endpoint is the address of a broker. It holds no credentials except the client certificate.
type Endpoint struct {
	Host     string              // without port and brackets
	Addr     string              // host:port
	TLS      *tls.Config         // nil without TLS
	Pin      *broker.Fingerprint // of the only certificate to be accepted, nil for none
	Settings SettingNames
	// Dial opens the network connection; nil means net.Dialer. A [*broker.Error] of it is the message
	// of the failure.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Node bool // Dial opens a connection over the port of a cluster, so there is no URL

	scheme
	secure bool   // use TLS
	wsURL  string // URL of the WebSocket handshake
}

// SettingNames are the names of settings in messages.
type SettingNames struct {
	CA          string // CA certificates
	Certificate string // client certificate
	Key         string // its key
	ServerName  string // expected name of the broker; "" if only the URL has it
	Fingerprint string // pinned certificate; "" if there is no such setting
}

// Parse parses scheme://host[:port], with a path for WebSockets. It rejects credentials,
// because URLs are shown in lists.
func Parse(raw string) (Endpoint, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return Endpoint{}, errors.New("is not a URL: it must look like mqtt://host:1883")
	}
	s, ok := schemes[u.Scheme]
	switch {
	case !ok:
		return Endpoint{}, errors.New("must begin with mqtt://, mqtts://, tcp://, ssl://, ws:// or wss://")
	case u.Hostname() == "":
		return Endpoint{}, errors.New("has no host")
	case u.User != nil:
		return Endpoint{}, errors.New("must not hold credentials: username and password have members of their own")
	case u.Fragment != "":
		return Endpoint{}, errors.New("must not have a fragment")
	case !s.ws && (u.RawQuery != "" || u.Path != "" && u.Path != "/"):
		return Endpoint{}, errors.New("must end after host and port: only ws:// and wss:// have a path")
	}
	port := u.Port()
	if port == "" {
		port = s.port
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return Endpoint{}, errors.New("the port must be a number from 1 to 65535")
	}
	ep := Endpoint{scheme: s, secure: broker.SchemeUsesTLS(u.Scheme), Host: u.Hostname(), Addr: net.JoinHostPort(u.Hostname(), port)}
	if s.ws {
		ep.wsURL = webSocketURL(u, ep.Addr)
	}
	return ep, nil
}

func webSocketURL(u *url.URL, addr string) string {
	w := *u
	w.Host = addr
	if w.Path == "" {
		w.Path = "/"
	}
	return w.String()
}

// SetTLS sets the TLS configuration if the URL requires TLS.
func (ep *Endpoint) SetTLS(config *tls.Config) {
	if ep.secure {
		ep.TLS = config
	}
}

// UsesTLS reports whether the URL requires TLS.
func (ep *Endpoint) UsesTLS() bool { return ep.secure }

// UsesWebSocket reports whether the URL requires WebSockets.
func (ep Endpoint) UsesWebSocket() bool { return ep.ws }

// Port returns the port of the broker.
func (ep Endpoint) Port() string {
	_, port, _ := net.SplitHostPort(ep.Addr) // Parse joined it
	return port
}
