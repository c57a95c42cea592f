package listen_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
)

// stage is how far a peer gets before it stalls.
type stage struct {
	protocol string
	proxied  bool
	upgraded bool   // the WebSocket is open
	sent     string // sent after that
}

var stages = map[string]stage{
	"nothing":                  {protocol: "mqtt"},
	"no PROXY header":          {protocol: "mqtt", proxied: true},
	"half a PROXY line":        {protocol: "mqtt", proxied: true, sent: "PROXY TCP4 192.0.2.7 1"},
	"half a binary header":     {protocol: "mqtt", proxied: true, sent: "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0"},
	"no TLS":                   {protocol: "mqtts"},
	"half a TLS hello":         {protocol: "mqtts", sent: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"},
	"no TLS after the header":  {protocol: "mqtts", proxied: true, sent: "PROXY UNKNOWN\r\n"},
	"no request":               {protocol: "ws"},
	"half a request":           {protocol: "ws", sent: "GET /mqtt HTTP/1.1\r\nHost: broker.test\r\nX: "},
	"nothing in the WebSocket": {protocol: "ws", upgraded: true},
	"half a frame":             {protocol: "ws", upgraded: true, sent: "\x82"},
}

// config returns the configuration of a listener for a stage.
func (s stage) config(f files) listen.Config {
	c := listen.Config{Protocol: s.protocol, ProxyProtocol: s.proxied}
	if s.protocol == "mqtts" {
		c.CertFile, c.KeyFile = f.cert, f.key
	}
	return c
}

// stall connects and gets as far as the stage.
func (r *rig) stall(s stage) net.Conn {
	r.t.Helper()
	var peer net.Conn
	if s.upgraded {
		peer = r.upgraded(0)
	} else {
		peer = r.dial(0)
	}
	io.WriteString(peer, s.sent)
	return peer
}

// awaitConnect reads as a broker does that waits for CONNECT.
func awaitConnect(c *listen.Conn) {
	defer c.Close()
	var b [1]byte
	if _, err := c.Read(b[:]); err == nil {
		c.Write(b[:])
		echo(c)
	}
}

func TestStalledPeersTimeOut(t *testing.T) {
	t.Parallel()
	_, certs := newAuthority(t)
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, options{handle: awaitConnect, Options: listen.Options{Timeout: 500 * time.Millisecond}}, s.config(certs))
			eventually(t, "the peer comes as far before its time is over", func() bool {
				peer := r.dial(0)
				heard := bufio.NewReader(peer)
				if s.upgraded {
					io.WriteString(peer, request())
					if _, err := http.ReadResponse(heard, nil); err != nil {
						return false
					}
				}
				io.WriteString(peer, s.sent)
				if _, err := io.Copy(io.Discard, heard); os.IsTimeout(err) {
					t.Errorf("the peer was not dismissed: %v", err)
				}
				return true
			})
			eventually(t, "the place is released", func() bool {
				return r.limits.Usage() == limits.Usage{Addresses: 1} || r.limits.Usage() == limits.Usage{}
			})
		})
	}
}

// TestSilentFloodDoesNotLockClientsOut floods without end from the address of legitimate
// clients.
func TestSilentFloodDoesNotLockClientsOut(t *testing.T) {
	t.Parallel()
	const limit, flood = 10, 100
	ca, certs := newAuthority(t)
	for name, s := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, options{
				handle: awaitConnect, Options: listen.Options{Timeout: time.Hour}, limits: limits.Config{MaxHalfOpen: limit},
			}, s.config(certs))
			talk := func() net.Conn {
				peer := r.dial(0)
				if s.proxied {
					io.WriteString(peer, "PROXY TCP4 192.0.2.9 10.0.0.1 1 2\r\n")
				}
				peer = r.open(peer, s.protocol, ca)
				wantEcho(t, peer, "hello")
				return peer
			}
			early := talk()
			for range flood {
				r.stall(s)
			}
			wantEcho(t, early, "still there")
			wantEcho(t, talk(), "there too")
			eventually(t, "all but a few are lost by the limit", func() bool { return r.counters.Lost()["max_half_open"] >= flood-limit })
			eventually(t, "few are left", func() bool { u := r.limits.Usage(); return u.Open <= limit+2 })
		})
	}
}
