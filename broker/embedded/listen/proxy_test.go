package listen_test

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
)

// proxyV2 returns a binary header.
func proxyV2(command, family byte, rest ...byte) string {
	h := "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{command, family})
	return string(binary.BigEndian.AppendUint16([]byte(h), uint16(len(rest)))) + string(rest)
}

// withChecksum adds a checksum to a binary header, or a wrong one if off is not 0.
func withChecksum(header string, off uint32) string {
	h := []byte(header + "\x03\x00\x04\x00\x00\x00\x00")
	binary.BigEndian.PutUint16(h[14:], uint16(len(h)-16))
	sum := crc32.Checksum(h, crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(h[len(h)-4:], sum+off)
	return string(h)
}

var (
	tcp4 = []byte{192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 0x07, 0x5B}
	tcp6 = append(append(append([]byte{0x20, 1, 0x0d, 0xb8, 15: 7}, make([]byte, 15)...), 1), 0x12, 0x34, 0x07, 0x5B)
)

// goodProxyHeaders map to the client's address, "" for the proxy's.
var goodProxyHeaders = map[string]string{
	"PROXY TCP4 192.0.2.7 10.0.0.1 4660 1883\r\n":                  "192.0.2.7:4660",
	"PROXY TCP6 2001:db8::7 ::1 4660 1883\r\n":                     "[2001:db8::7]:4660",
	"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:10.0.0.1 1 2\r\n":          "192.0.2.7:1",
	"PROXY UNKNOWN\r\n":                                            "",
	"PROXY UNKNOWN whatever it says 1 2\r\n":                       "",
	proxyV2(0x21, 0x11, tcp4...):                                   "192.0.2.7:4660",
	proxyV2(0x21, 0x21, tcp6...):                                   "[2001:db8::7]:4660",
	proxyV2(0x21, 0x11, append(tcp4, 0x04, 0, 2, 'x', 'y')...):     "192.0.2.7:4660",
	withChecksum(proxyV2(0x21, 0x11, tcp4...), 0):                  "192.0.2.7:4660",
	withChecksum(proxyV2(0x21, 0x11, append(tcp4, 5, 0, 0)...), 0): "192.0.2.7:4660",
	proxyV2(0x20, 0x00):                                            "",
	proxyV2(0x20, 0x11, tcp4...):                                   "",
	proxyV2(0x20, 0xFF, 1, 2, 3):                                   "",
	proxyV2(0x21, 0x00):                                            "",
	proxyV2(0x21, 0x31, make([]byte, 216)...):                      "",
	proxyV2(0x21, 0x11, append(tcp4, make([]byte, 3*1361)...)...):  "192.0.2.7:4660", // 1361 additions of no length
}

var badProxyHeaders = []string{
	"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00",
	"GET / HTTP/1.1\r\n\r\n",
	"PROXY \r\n    \r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 4660\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 4660 1883 \r\n",
	"PROXY TCP4 192.0.2.7  10.0.0.1 4660 1883\r\n",
	"PROXY TCP4 ::1 ::1 4660 1883\r\n",
	"PROXY TCP6 192.0.2.7 10.0.0.1 4660 1883\r\n",
	"PROXY TCP6 fe80::1%eth0 ::1 4660 1883\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0 4660 1883\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 65536 1883\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 04660 1883\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 4660 -1\r\n",
	"PROXY UDP4 192.0.2.7 10.0.0.1 4660 1883\r\n",
	"PROXY UNKNOWNS\r\n",
	"PROXY UNKNOWN " + strings.Repeat("x", 107) + "\r\n",
	"PROXY TCP4 192.0.2.7 10.0.0.1 4660 1883\n" + strings.Repeat("x", 107),
	proxyV2(0x11, 0x11, tcp4...),
	proxyV2(0x22, 0x11, tcp4...),
	proxyV2(0x21, 0x12, tcp4...),
	proxyV2(0x21, 0x11, tcp4[:11]...),
	proxyV2(0x21, 0x21, tcp6[:35]...),
	proxyV2(0x21, 0x31, make([]byte, 215)...),
	proxyV2(0x21, 0x11, append(tcp4, 4, 0)...),
	proxyV2(0x21, 0x11, append(tcp4, 4, 0, 2, 'x')...),
	proxyV2(0x21, 0x11, append(tcp4, 3, 0, 1, 'x')...),
	proxyV2(0x21, 0x11, append(tcp4, make([]byte, 3*1365)...)...), // too many additions
	withChecksum(proxyV2(0x21, 0x11, tcp4...), 1),
}

// bit sends a text in pieces of a size.
func bit(c net.Conn, text string, size int) {
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(c, text[:n]); err != nil {
			return
		}
		text = text[n:]
	}
}

// wantEchoProxied sends a header for an address and expects what follows to be echoed.
func wantEchoProxied(t *testing.T, c net.Conn, from string) {
	t.Helper()
	wantEchoAfter(t, c, "PROXY TCP4 "+from+" 10.0.0.1 1 2\r\n", "x")
}

// wantEchoAfter sends a header directly followed by a text, and expects the text back.
func wantEchoAfter(t *testing.T, c net.Conn, header, text string) {
	t.Helper()
	if _, err := io.WriteString(c, header+text); err != nil {
		t.Fatal(err)
	}
	wantHear(t, c, text)
}

func TestProxyHeaders(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "mqtt", ProxyProtocol: true})
	for header, want := range goodProxyHeaders {
		for _, size := range []int{1, 7, len(header) + 100} {
			peer := r.dial(0)
			bit(peer, header+"hello", size)
			wantHear(t, peer, "hello")
			c := r.next()
			remote := want
			if remote == "" {
				remote = peer.LocalAddr().String()
			}
			if c.RemoteAddr().String() != remote || c.Addr() != netip.MustParseAddrPort(remote).Addr() {
				t.Errorf("%q in pieces of %d: from %s, want %s", header, size, c.RemoteAddr(), remote)
			}
			if c.Raw() == nil {
				t.Errorf("%q: no descriptor", header)
			}
			peer.Close()
		}
	}
	for n, header := range badProxyHeaders {
		peer := r.dial(0)
		bit(peer, header, len(header))
		wantClosed(t, peer)
		r.wantLost("PROXY header", int64(n+1))
	}
}

func TestOnlyTrustedProxiesMaySendAHeader(t *testing.T) {
	t.Parallel()
	r := serve(t, options{},
		listen.Config{Protocol: "mqtt", ProxyProtocol: true, TrustedProxies: []string{"192.0.2.0/24"}},
		listen.Config{Protocol: "mqtt", ProxyProtocol: true, TrustedProxies: []string{"192.0.2.0/24", "127.0.0.1"}},
	)
	wantClosed(t, r.dial(0))
	wantEchoProxied(t, r.dial(1), "198.51.100.1")
	r.wantLost("PROXY header", 1)
}

// TestLimitsCountTheProxiedAddress: connections of the proxy's own address are not limited.
func TestLimitsCountTheProxiedAddress(t *testing.T) {
	t.Parallel()
	banned := func(a netip.Addr) bool { return a == netip.MustParseAddr("198.51.100.2") }
	r := serve(t, options{Options: listen.Options{Banned: banned}, limits: limits.Config{MaxConnectionsPerAddress: 1}},
		listen.Config{Protocol: "mqtt", ProxyProtocol: true})
	wantEchoProxied(t, r.dial(0), "198.51.100.1")
	wantEchoProxied(t, r.dial(0), "198.51.100.3")
	for from, cause := range map[string]string{"198.51.100.1": "max_connections_per_address", "198.51.100.2": "ban"} {
		peer := r.dial(0)
		io.WriteString(peer, "PROXY TCP4 "+from+" 10.0.0.1 1 2\r\n")
		wantClosed(t, peer)
		r.wantLost(cause, 1)
	}
}

// TestProxyHeaderComesFirst, before any other bytes of a protocol.
func TestProxyHeaderComesFirst(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	configs := allProtocols(t, certs)
	for i := range configs {
		configs[i].ProxyProtocol = true
	}
	r := serve(t, options{}, configs...)
	for n, l := range r.Listeners() {
		peer := r.dial(n)
		io.WriteString(peer, "PROXY TCP4 198.51.100.9 10.0.0.1 1 2\r\n")
		wantEcho(t, r.open(peer, l.Config().Protocol, ca), "hello")
		if got := r.next().RemoteAddr().String(); got != "198.51.100.9:1" {
			t.Errorf("%s: from %s", l.Config().Protocol, got)
		}
	}
}
