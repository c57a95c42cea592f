package conformance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/embedded"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

// The brokers that tests are held against.
const (
	kindEmbedded  = "embedded"
	kindMosquitto = "mosquitto"
)

// subject is a broker under test. Everybody is let in and may do everything,
// unless the test wants it otherwise.
type subject struct {
	kind     string
	tcp      string // host:port
	ws       string // host:port
	embedded *embedded.Broker
	server   *brokertest.Server
	username string // of one who may do everything
	password string

	options options
}

// options is what a test wants of its broker.
type options struct {
	configure func(*embedded.Config)
	prepare   func(*testing.T, *embedded.Broker)
	mosquitto []brokertest.Option
	login     bool              // nobody gets in without a password
	leftOut   map[string]string // kind to reason
}

type option func(*options)

// notOn leaves a broker out, and says why it cannot pass.
func notOn(kind, why string) option {
	return func(o *options) { o.leftOut[kind] = why }
}

// configured sets both brokers up alike: ours by a change of its
// configuration, Mosquitto by lines of its own.
func configured(ours func(*embedded.Config), lines ...string) option {
	return func(o *options) {
		o.configure = ours
		o.mosquitto = append(o.mosquitto, brokertest.WithConfig(lines...))
	}
}

// withLogin lets nobody in but the administrator.
func withLogin() option {
	return func(o *options) { o.login = true }
}

// limited gives both brokers a largest packet, in bytes.
func limited(bytes int) option {
	return configured(func(c *embedded.Config) { c.MaxPacketSize = bytes }, fmt.Sprintf("max_packet_size %d", bytes))
}

// prepared does something with our broker before it serves.
func prepared(f func(*testing.T, *embedded.Broker)) option {
	return func(o *options) { o.prepare = f }
}

// newSubject describes a broker; with a reason, it is not to be tested.
func newSubject(kind string, opts []option) (s *subject, why string) {
	s = &subject{kind: kind, options: options{leftOut: map[string]string{}}}
	for _, opt := range opts {
		opt(&s.options)
	}
	return s, s.options.leftOut[kind]
}

// start runs the broker until the test is over.
func (s *subject) start(t *testing.T) {
	t.Helper()
	if s.kind == kindMosquitto {
		s.startMosquitto(t)
		return
	}
	s.startEmbedded(t)
}

func (s *subject) startMosquitto(t *testing.T) {
	t.Helper()
	opts := s.options.mosquitto
	if !s.options.login {
		opts = append(opts, brokertest.WithoutPlugin())
	}
	s.server = brokertest.Mosquitto(t, opts...)
	s.username, s.password = s.server.AdminUsername, string(s.server.AdminPassword)
	s.tcp, s.ws = s.server.Addr, strings.TrimPrefix(s.server.WSURL, "ws://") // "" unless asked for
}

// The administrator of our broker.
const (
	adminName     = "admin"
	adminPassword = "admin-password"
)

func (s *subject) startEmbedded(t *testing.T) {
	t.Helper()
	c := patient()
	c.Listeners = []listen.Config{{Protocol: listen.WS, Address: "127.0.0.1:0"}}
	c.AdminUsername, c.AdminPassword = adminName, adminPassword
	s.username, s.password = adminName, adminPassword
	c.AllowAnonymous = !s.options.login
	c.PasswordIterations = 100 // a test's passwords are no secrets
	if s.options.configure != nil {
		s.options.configure(&c)
	}
	b := openEmbedded(t, c, t.TempDir())
	s.embedded, s.tcp, s.ws = b, b.Addrs()[0], b.Addrs()[1]
	open(t, b)
	if s.options.prepare != nil {
		s.options.prepare(t, b)
	}
}

// patient is a configuration without a time in which a client must say CONNECT or
// read: on a busy machine none would be long enough.
func patient() embedded.Config {
	c := embedded.DefaultConfig()
	c.Listen = "127.0.0.1:0"
	c.ConnectTimeout, c.WriteTimeout = time.Hour, time.Hour
	return c
}

func openEmbedded(t *testing.T, c embedded.Config, dir string) *embedded.Broker {
	t.Helper()
	b, err := embedded.New(t.Context(), c, dir, slog.New(slog.NewTextHandler(testLog{t}, nil)))
	if err != nil {
		t.Fatalf("make the broker: %v", err)
	}
	t.Cleanup(func() {
		if err := closeEmbedded(b); err != nil {
			t.Errorf("close the broker: %v", err)
		}
	})
	if err := b.Start(t.Context()); err != nil {
		t.Fatalf("start the broker: %v", err)
	}
	return b
}

// closeEmbedded closes a broker. Close waits no longer than ten seconds, whatever its
// context says, and goes on waiting when it is called again.
func closeEmbedded(b *embedded.Broker) (err error) {
	for range suite.HangLimit / (10 * time.Second) {
		if err = b.Close(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return err
}

// open lets everybody do everything, as a Mosquitto without rights does.
func open(t *testing.T, b *embedded.Broker) {
	t.Helper()
	group, role := "everybody", "everything"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("open the broker to everybody: %v", err)
		}
	}
	must(b.SetDefaultACLAccess(t.Context(), []broker.DefaultACL{
		{ACLType: "publishClientSend", Allow: true}, {ACLType: "publishClientReceive", Allow: true},
		{ACLType: "subscribe", Allow: true}, {ACLType: "unsubscribe", Allow: true},
	}))
	must(b.CreateRole(t.Context(), broker.RoleSpec{RoleName: role}))
	must(b.CreateGroup(t.Context(), broker.GroupSpec{GroupName: group,
		Roles: []broker.RoleRef{{RoleName: role, Priority: broker.NoPriority}}}))
}

// addr is where a scene reaches its broker.
func (s *subject) addr(ws bool) string {
	if ws {
		return s.ws
	}
	return s.tcp
}

// hostPort splits an address for programs that take the two apart.
func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatalf("address %q: %v", addr, err)
	}
	return host, port
}

// testLog shows what the broker logs with the test's own output.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	fmt.Fprintf(l.t.Output(), "%s", p)
	return len(p), nil
}
