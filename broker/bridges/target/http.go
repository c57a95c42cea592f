package target

import (
	"context"
	"crypto/tls"
	"net"
	nethttp "net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"signalbox/broker/bridges"
)

// ParseURL parses the URL of an HTTP server and returns the configuration of TLS, which https
// enables, nil without. It reports problems at connection.url and below connection.tls.
func ParseURL(text string, secure bridges.TLS, p *bridges.Problems) (*url.URL, *tls.Config) {
	const at = "connection.url"
	u, err := url.Parse(text)
	if err != nil {
		p.Add(at, "is not a URL")
		return &url.URL{}, nil
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		p.Add(at, "must begin with http:// or https://")
	case u.Hostname() == "":
		p.Add(at, "must name a host")
	case !isPort(u.Port()):
		p.Add(at, "must have a port between 1 and 65535, or none")
	case u.User != nil:
		p.Add(at, "must not hold credentials: they have members of their own")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		p.Add(at, "must end with the path")
	case HasDotSegment(u.EscapedPath()):
		p.Add(at, "must not have . or .. in its path")
	case u.Scheme == "http" && secure.Enabled:
		p.Add(at, "must begin with https:// if TLS is enabled")
	}
	secure.Enabled = u.Scheme == "https"
	return u, secure.Config(u.Hostname(), "connection.tls", p)
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return text == "" || err == nil && n > 0 && n < 1<<16
}

// Dial opens a connection, with TLS unless secure is nil. Without a server name it verifies the
// host of the address.
func Dial(ctx context.Context, dial bridges.Dial, secure *tls.Config, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, network, address)
	if err != nil || secure == nil {
		return conn, err
	}
	if secure.ServerName == "" {
		secure = secure.Clone()
		secure.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, secure)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close() //nolint:errcheck // it was not used
		return nil, err
	}
	return secured, nil
}

// dialTimeout is the timeout for opening a connection.
const dialTimeout = 10 * time.Second

// HTTPClient returns a client with at most that many connections. It uses no proxies of the
// environment and follows no redirects: a message goes only to the configured server. Pings
// detect a dead HTTP/2 connection, which would otherwise be used again after each request that it
// loses.
func HTTPClient(dial bridges.Dial, secure *tls.Config, connections int) *nethttp.Client {
	return &nethttp.Client{
		Transport: &nethttp.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTimeout)
				defer cancel()
				return dial(ctx, network, address)
			},
			TLSClientConfig:        secure.Clone(), // the transport modifies it
			TLSHandshakeTimeout:    10 * time.Second,
			ExpectContinueTimeout:  time.Second,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &nethttp.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
			DisableCompression:     true,
			MaxConnsPerHost:        connections,
			MaxIdleConnsPerHost:    connections,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse },
	}
}

// unescaped decodes the escapes of dots and separators, as some servers do.
var unescaped = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%3b", ";", "%3B", ";")

// HasDotSegment reports whether a path has a segment . or .., even if it is escaped.
func HasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(unescaped.Replace(path), "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}
