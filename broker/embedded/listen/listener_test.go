package listen_test

import (
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

func TestPlainConnection(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "mqtt"})
	peer := r.dial(0)
	wantEcho(t, peer, "hello")
	c := r.next()
	if got, want := c.RemoteAddr().String(), peer.LocalAddr().String(); got != want {
		t.Errorf("remote address %s, want %s", got, want)
	}
	if c.Addr() != netip.MustParseAddr("127.0.0.1") || c.Raw() == nil || c.Identity() != "" || c.WebSocket() || c.Certificate() != nil {
		t.Errorf("address %s, raw %v, identity %q, web socket %v", c.Addr(), c.Raw(), c.Identity(), c.WebSocket())
	}
	if _, encrypted := c.TLS(); encrypted {
		t.Error("encrypted")
	}
	if got := r.limits.Usage(); got.Open != 1 || got.HalfOpen != 0 {
		t.Errorf("usage %+v", got)
	}
	peer.Close()
	eventually(t, "the place is released", func() bool { return r.limits.Usage().Open == 0 })
	if in, out := r.counters.Received.Load(), r.counters.Sent.Load(); in != 5 || out != 5 || r.counters.Accepted.Load() != 1 {
		t.Errorf("received %d, sent %d bytes", in, out)
	}
}

// TestRaw reads and writes on the descriptor, with the deadlines of the connection.
func TestRaw(t *testing.T) {
	t.Parallel()
	r := serve(t, options{handle: func(*listen.Conn) {}}, listen.Config{Protocol: "mqtt"})
	peer := r.dial(0)
	c := r.next()
	raw := c.Raw()
	done := make(chan error)
	tried := make(chan struct{}, 100)
	go func() {
		done <- raw.Read(func(uintptr) bool {
			tried <- struct{}{}
			return len(tried) == 2 // wait once
		})
	}()
	<-tried
	tried <- struct{}{}
	io.WriteString(peer, "x")
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.SetReadDeadline(time.Now().Add(-time.Second))
	if err := raw.Read(func(uintptr) bool { return false }); !os.IsTimeout(err) {
		t.Errorf("past the deadline: %v", err)
	}
}

func TestWaitLosesNothing(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	waiting := func(c *listen.Conn) {
		defer c.Close()
		buf := make([]byte, 100)
		for c.Wait() == nil {
			if err := c.Wait(); err != nil && !os.IsTimeout(err) { // the test lets it time out at the end
				t.Errorf("waiting again: %v", err)
			}
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			c.Write(buf[:n])
		}
	}
	r := serve(t, options{handle: waiting}, allProtocols(t, certs)...)
	for n, peer := range r.dialAll(ca) {
		wantEcho(t, peer, "1")
		wantEcho(t, peer, "two")
		wantEcho(t, peer, strings.Repeat("many ", 1000))
		c := r.next()
		c.SetReadDeadline(time.Now().Add(-time.Second))
		peer.Close()
		eventually(t, "the connection is closed", func() bool { return r.Listeners()[n].Open() == 0 })
	}
}

// TestReadAfterDeadline repeats a read that ran into its deadline.
func TestReadAfterDeadline(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	r := serve(t, options{handle: func(*listen.Conn) {}}, allProtocols(t, certs)...)
	for n, peer := range r.dialAll(ca) {
		c := r.next()
		var buf [10]byte
		for _, text := range []string{"a", "b"} {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(buf[:]); !os.IsTimeout(err) {
				t.Fatalf("listener %d: %v", n, err)
			}
			if err := c.Wait(); !os.IsTimeout(err) {
				t.Fatalf("listener %d: %v", n, err)
			}
			c.SetReadDeadline(time.Now().Add(suite.HangLimit))
			io.WriteString(peer, text)
			wantHear(t, c, text)
		}
	}
}

// TestHandshakeDeadlineAppliesToReadsOnly once the handshake is complete.
func TestHandshakeDeadlineAppliesToReadsOnly(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	late := func(c *listen.Conn) {
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); !os.IsTimeout(err) || time.Now().Before(c.ConnectBy()) {
			t.Errorf("read: %v", err)
		}
		io.WriteString(c, "late")
	}
	r := serve(t, options{handle: late, Options: listen.Options{Timeout: 10 * time.Second}}, allProtocols(t, certs)...)
	peers := maps.Collect(r.dialAll(ca))
	for _, peer := range peers {
		wantHear(t, peer, "late")
	}
}

// TestCloseDoesNotWait closes connections whose peers do not read, during a write without a
// deadline.
func TestCloseDoesNotWait(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	written := make(chan error, 10)
	stuck := func(c *listen.Conn) {
		for {
			if _, err := c.Write(make([]byte, 1<<20)); err != nil {
				written <- err
				return
			}
		}
	}
	r := serve(t, options{handle: stuck}, allProtocols(t, certs)...)
	for n := range r.dialAll(ca) {
		c := r.next()
		before := int64(-1)
		eventually(t, "nothing more is taken", func() bool {
			now := r.counters.Sent.Load()
			same := now == before && now > 0
			before = now
			return same
		})
		c.Close()
		if err := c.Close(); err != nil {
			t.Errorf("listener %d, closed again: %v", n, err)
		}
		if err := <-written; err == nil {
			t.Errorf("listener %d: the writer goes on", n)
		}
	}
}

func TestMaxConnectionsOfAListener(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "mqtt", MaxConnections: 1}, listen.Config{Protocol: "mqtt"})
	first := r.dial(0)
	wantEcho(t, first, "x")
	wantClosed(t, r.dial(0))
	wantClosed(t, r.dial(0))
	wantEcho(t, r.dial(1), "x")
	r.wantLost("listener max_connections", 2)
	if got := r.log.count(`level=WARN msg="connections failed"`); got != 1 {
		t.Errorf("warned %d times", got)
	}
	first.Close()
	eventually(t, "there is room", func() bool { return r.Listeners()[0].Open() == 0 })
	wantEcho(t, r.dial(0), "x")
}

func TestLimitsAndBans(t *testing.T) {
	t.Parallel()
	banned := func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.2") }
	r := serve(t, options{Options: listen.Options{Banned: banned}, limits: limits.Config{MaxConnectionsPerAddress: 1}},
		listen.Config{Protocol: "mqtt"})
	from := func(local string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
		c, err := d.Dial("tcp", r.addr(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(suite.HangLimit))
		return c
	}
	wantEcho(t, from("127.0.0.1"), "x")
	wantClosed(t, from("127.0.0.1"))
	wantClosed(t, from("127.0.0.2"))
	wantEcho(t, from("127.0.0.3"), "x")
	r.wantLost("max_connections_per_address", 1)
	r.wantLost("ban", 1)
}

func TestBindIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := serve(t, options{}, listen.Config{Protocol: "mqtt"})
	free := filepath.Join(t.TempDir(), "socket")
	configs := []listen.Config{
		{Protocol: "unix", Address: free},
		{Protocol: "mqtt", Address: r.addr(0), Key: "broker.listen"},
	}
	o := listen.Options{Timeout: suite.HangLimit, Limits: limits.New(limits.Config{}, time.Now)}
	s, err := listen.New(configs, o)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Bind(t.Context())
	want := "broker cannot listen on " + r.addr(0) + " (broker.listen): the port is in use: " +
		"stop the program that uses it or configure another port: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if _, err := os.Lstat(free); !os.IsNotExist(err) {
		t.Errorf("the other address is taken: %v", err)
	}
}

func TestCloseEndsPendingConnections(t *testing.T) {
	t.Parallel()
	_, certs := newAuthority(t)
	configs := allProtocols(t, certs)
	for i := range configs {
		configs[i].ProxyProtocol = true
	}
	configs[0].Address = isolatedAddress
	r := serve(t, options{Options: listen.Options{Timeout: time.Hour}}, configs...)
	var early []net.Conn
	for n := range configs {
		early = append(early, r.dial(n))
	}
	plain := r.dial(0)
	wantEchoProxied(t, plain, "10.0.0.1")
	eventually(t, "all are open", func() bool { return r.limits.Usage().Open == len(configs)+1 })
	r.Close()
	r.Close() // no effect
	for _, c := range early {
		wantClosed(t, c)
	}
	wantEcho(t, plain, "still here")
	if c, err := net.Dial("tcp", r.addr(0)); err == nil {
		c.Close()
		t.Error("the listener accepts although closed")
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	_, certs := newAuthority(t)
	path := filepath.Join(t.TempDir(), "socket")
	configs := []listen.Config{
		{Protocol: "mqtt"},
		{Protocol: "wss", CertFile: certs.cert, KeyFile: certs.key, CAFile: certs.ca, RequireCertificate: true},
		{Protocol: "unix", Address: path},
	}
	o := listen.Options{Timeout: suite.HangLimit, Limits: limits.New(limits.Config{}, time.Now)}
	for i := range configs[:2] {
		configs[i].Address = "127.0.0.1:0"
	}
	before, err := listen.New(configs, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := before.Listeners()[0].Describe(); got.Port != 0 || got.BindAddress != "127.0.0.1" {
		t.Errorf("before it is bound: %+v", got)
	}
	r := serve(t, options{}, configs...)
	var got []broker.Listener
	for _, l := range r.Listeners() {
		got = append(got, l.Describe())
	}
	for i := range got[:2] {
		if got[i].Port == 0 {
			t.Errorf("listener %d has no port", i)
		}
		got[i].Port = 1
	}
	pair, err := tls.LoadX509KeyPair(certs.cert, certs.key)
	if err != nil {
		t.Fatal(err)
	}
	want := []broker.Listener{
		{ID: 1, Port: 1, BindAddress: "127.0.0.1", Protocol: "mqtt", Certs: []broker.ListenerCert{}, Connections: new(0)},
		{ID: 2, Port: 1, BindAddress: "127.0.0.1", Protocol: "mqtt+websockets", TLS: true, RequireCertificate: true,
			Certs:       []broker.ListenerCert{{CertificateID: certs.fingerprint(t), Name: "broker.test", Filename: "cert.pem", NotAfter: pair.Leaf.NotAfter.UnixMilli()}},
			Connections: new(0)},
		{ID: 3, BindAddress: path, Protocol: "mqtt", Certs: []broker.ListenerCert{}, Connections: new(0)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
