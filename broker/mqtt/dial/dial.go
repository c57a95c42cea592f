// Package dial reaches a broker up to where MQTT begins: over TCP, TLS and
// WebSockets, as a URL says. It tells in a sentence why that failed.
//
// Of this module it imports broker and broker/outbound only. It must not import net/http or an MQTT
// library.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// scheme says how a URL's scheme is carried: the port where the URL names none,
// and the layers between TCP and MQTT.
type scheme struct {
	port   string
	secure bool // with TLS
	ws     bool
}

var schemes = map[string]scheme{
	"mqtt":  {port: "1883"},
	"tcp":   {port: "1883"},
	"mqtts": {port: "8883", secure: true},
	"ssl":   {port: "8883", secure: true},
	"ws":    {port: "80", ws: true},
	"wss":   {port: "443", secure: true, ws: true},
}

// Endpoint is where and how a broker is reached. It holds no credentials but
// the client certificate.
type Endpoint struct {
	Host  string      // without port and brackets
	Addr  string      // host:port
	TLS   *tls.Config // nil without TLS
	Words Words
	// Dial opens the network connection; nil is that of a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	scheme
	wsURL string // the URL of the WebSocket handshake
}

// Words are what the settings are called where the operator finds them.
type Words struct {
	CA          string // certificates of authorities
	Certificate string // of the client
	Key         string // of that certificate
	ServerName  string // the name that the broker's certificate is for; "" where only the URL says it
}

// Parse takes scheme://host[:port] apart, and a path for WebSockets.
// Credentials in it are refused: a URL is shown in lists.
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
	ep := Endpoint{scheme: s, Host: u.Hostname(), Addr: net.JoinHostPort(u.Hostname(), port)}
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

// Secure has TLS used with a configuration where the URL says that there is to be
// TLS.
func (ep *Endpoint) Secure(config *tls.Config) {
	if ep.secure {
		ep.TLS = config
	}
}

// Secured tells whether the URL says that there is to be TLS.
func (ep *Endpoint) Secured() bool { return ep.secure }
