package listen_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { suite.Main(m) }

// rig is a set of listeners whose connections echo everything until the peer stops sending.
type rig struct {
	*listen.Set
	t        *testing.T
	counters *listen.Counters
	limits   *limits.Limits
	log      *logRecorder
	conns    chan *listen.Conn // those handed over, in order
	echoing  sync.WaitGroup

	mu  sync.Mutex // guards all
	all []*listen.Conn
}

// options are a rig's; zero values are replaced.
type options struct {
	listen.Options
	limits limits.Config
	handle func(*listen.Conn) // instead of the echo
}

// serve runs listeners until the test ends, when nothing may be left open.
func serve(t *testing.T, o options, configs ...listen.Config) *rig {
	t.Helper()
	r := &rig{t: t, counters: &listen.Counters{}, log: &logRecorder{t: t}, conns: make(chan *listen.Conn, 1000)}
	r.limits = limits.New(o.limits, time.Now)
	o.Limits, o.Counters, o.Log = r.limits, r.counters, slog.New(slog.NewTextHandler(r.log, nil))
	o.Watch = newWatch(t)
	if o.Timeout == 0 {
		o.Timeout = suite.HangLimit
	}
	for i := range configs {
		configs[i].Key = fmt.Sprintf("listeners[%d].", i)
		if configs[i].Address == "" {
			configs[i].Address = "127.0.0.1:0"
		}
	}
	if errs := listen.Validate(configs); errs != nil {
		t.Fatal(errs)
	}
	var err error
	if r.Set, err = listen.New(configs, o.Options); err != nil {
		t.Fatal(err)
	}
	if err := r.Bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	handle := o.handle
	if handle == nil {
		handle = echo
	}
	r.Serve(func(c *listen.Conn) {
		r.mu.Lock()
		r.all = append(r.all, c)
		r.mu.Unlock()
		r.conns <- c
		if !c.Watched() {
			handle(c)
			return
		}
		c.SetReadDeadline(c.ConnectBy())
		r.echoing.Go(func() { handle(c) })
	})
	t.Cleanup(func() {
		r.Close()
		r.mu.Lock()
		all := r.all
		r.mu.Unlock()
		for _, c := range all {
			c.Close()
		}
		r.Wait()
		r.echoing.Wait()
		if got := r.limits.Usage(); got.Open != 0 || got.HalfOpen != 0 {
			t.Errorf("usage %+v after all is over", got)
		}
		for _, l := range r.Listeners() {
			if l.Open() != 0 {
				t.Errorf("%s: %d open after all is over", l.Addr(), l.Open())
			}
		}
	})
	return r
}

// echo sends back what it receives.
func echo(c *listen.Conn) {
	defer c.Close()
	c.ConnectReceived()
	c.SetReadDeadline(time.Time{})
	io.Copy(c, struct{ io.Reader }{c})
}

// isolatedAddress is an address from which nothing connects, and on which only listeners are that
// tests close: no connection and no other program takes their ports meanwhile.
const isolatedAddress = "127.0.0.9:0"

// addr returns the address of the nth listener.
func (r *rig) addr(n int) string { return r.Listeners()[n].Addr() }

// next returns the next connection that was handed over.
func (r *rig) next() *listen.Conn {
	r.t.Helper()
	select {
	case c := <-r.conns:
		return c
	case <-time.After(suite.HangLimit):
		r.t.Fatal("no connection was handed over")
		return nil
	}
}

// wantLost waits until connections failed for a cause.
func (r *rig) wantLost(cause string, n int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d are lost by %q", n, cause), func() bool { return r.counters.Lost()[cause] == n })
}

// dial connects to the nth listener.
func (r *rig) dial(n int) net.Conn {
	r.t.Helper()
	network := "tcp"
	if strings.HasPrefix(r.addr(n), "/") {
		network = "unix"
	}
	c, err := net.Dial(network, r.addr(n))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(suite.HangLimit))
	return c
}

// wantEcho sends a text and expects it back.
func wantEcho(t *testing.T, c io.ReadWriter, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("say %q: %v", text, err)
	}
	wantHear(t, c, text)
}

func wantHear(t *testing.T, c io.Reader, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v; want %q", got[:n], err, text)
	}
}

// wantClosed expects the peer to close without sending anything.
func wantClosed(t *testing.T, c io.Reader) {
	t.Helper()
	var b [1]byte
	n, err := c.Read(b[:])
	if n != 0 || err == nil || os.IsTimeout(err) {
		t.Fatalf("read %d bytes, %v; want the end", n, err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting until %s", what)
		case <-tick.C:
		}
	}
}

// logRecorder records what was logged; it is shown with the test's own output.
type logRecorder struct {
	t    *testing.T
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logRecorder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.t.Output(), "%s", p)
	return l.text.Write(p)
}

// count returns the number of lines that contain a text.
func (l *logRecorder) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// files are a listener's certificate files.
type files struct{ cert, key, ca string }

// newFiles creates a server's certificate and writes it with the authority's.
func newFiles(t *testing.T, ca *brokertest.CA) files {
	t.Helper()
	dir := t.TempDir()
	f := files{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), ca: filepath.Join(dir, "ca.pem")}
	f.replace(t, ca.Issue(t, server))
	write(t, f.ca, ca.PEM)
	return f
}

// server is the subject of the listeners' certificates.
var server = brokertest.CertOptions{Subject: "broker.test", Names: []string{"127.0.0.1"}}

// replace writes another certificate and key, each file as a whole.
func (f files) replace(t *testing.T, pair brokertest.KeyPair) {
	t.Helper()
	write(t, f.cert, pair.Cert)
	write(t, f.key, pair.Key)
}

// write replaces a file atomically.
func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// trusting returns the configuration of a client that trusts an authority.
func trusting(ca *brokertest.CA) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// showing adds a certificate to a client's configuration.
func showing(t *testing.T, c *tls.Config, pair brokertest.KeyPair) *tls.Config {
	t.Helper()
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	c.Certificates = []tls.Certificate{cert}
	return c
}
