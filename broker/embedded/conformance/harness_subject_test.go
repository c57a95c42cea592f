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

// The brokers under test.
const (
	kindEmbedded  = "embedded"
	kindMosquitto = "mosquitto"
)

// subject is a broker under test. All clients are accepted and have all rights, unless the
// test configures it otherwise.
type subject struct {
	kind     string
	tcp      string // host:port
	ws       string // host:port
	embedded *embedded.Broker
	server   *brokertest.Server
	username string // of a user with all rights
	password string

	options options
}

// options are a test's requirements of its broker.
type options struct {
	configure func(*embedded.Config)
	prepare   func(*testing.T, *embedded.Broker)
	mosquitto []brokertest.Option
	login     bool              // clients without a password are refused
	leftOut   map[string]string // kind to reason
}

type option func(*options)

// notOn excludes a broker, with the reason.
func notOn(kind, why string) option {
	return func(o *options) { o.leftOut[kind] = why }
}

// configured configures both brokers alike: ours by a change of its configuration,
// Mosquitto by configuration lines.
func configured(ours func(*embedded.Config), lines ...string) option {
	return func(o *options) {
		o.configure = ours
		o.mosquitto = append(o.mosquitto, brokertest.WithConfig(lines...))
	}
}

// withLogin accepts the administrator only.
func withLogin() option {
	return func(o *options) { o.login = true }
}

// limited sets the maximum packet size of both brokers, in bytes.
func limited(bytes int) option {
	return configured(func(c *embedded.Config) { c.MaxPacketSize = bytes }, fmt.Sprintf("max_packet_size %d", bytes))
}

// prepared calls a function with our broker before it serves.
func prepared(f func(*testing.T, *embedded.Broker)) option {
	return func(o *options) { o.prepare = f }
}

// newSubject describes a broker; if why is not empty, it must not be tested.
func newSubject(kind string, opts []option) (s *subject, why string) {
	s = &subject{kind: kind, options: options{leftOut: map[string]string{}}}
	for _, opt := range opts {
		opt(&s.options)
	}
	return s, s.options.leftOut[kind]
}

// start runs the broker until the end of the test.
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

// patient returns a configuration without timeouts for CONNECT or for reading: on a busy
// machine none would be long enough.
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
// context is, and continues to wait when it is called again.
func closeEmbedded(b *embedded.Broker) (err error) {
	for range suite.HangLimit / (10 * time.Second) {
		if err = b.Close(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return err
}

// open grants all rights to all clients, as a Mosquitto without access control does.
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

// addr returns the address at which a scene connects to its broker.
func (s *subject) addr(ws bool) string {
	if ws {
		return s.ws
	}
	return s.tcp
}

// hostPort splits an address for programs that need both parts.
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
