package listen_test

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

// wantRefused expects that connecting is refused.
func (r *rig) wantRefused(n int) {
	r.t.Helper()
	network := "tcp"
	if strings.HasPrefix(r.addr(n), "/") {
		network = "unix"
	}
	if c, err := net.Dial(network, r.addr(n)); err == nil {
		c.Close()
		r.t.Errorf("listener %d is open", n)
	}
}

func (r *rig) describe() (all []broker.Listener) {
	for _, l := range r.Listeners() {
		all = append(all, l.Describe())
	}
	return all
}

// TestRestrict repeatedly closes all listeners but the administrators' and reopens them at
// the same addresses.
func TestRestrict(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	configs := allProtocols(t, certs)
	own := len(configs)
	for i := range configs {
		if configs[i].Protocol != "unix" {
			configs[i].Address = isolatedAddress
		}
	}
	r := serve(t, options{}, append(configs, listen.Config{Protocol: "mqtt", AdminOnly: true})...)
	if !r.HasAdminOnly() {
		t.Error("there is no listener for administrators")
	}
	before := r.describe()
	for range 3 {
		var there []net.Conn
		for _, peer := range r.dialAll(ca) {
			wantEcho(t, peer, "x")
			there = append(there, peer)
		}
		admin := r.dial(own)
		wantEcho(t, admin, "x")
		if err := r.Restrict(true); err != nil {
			t.Fatal(err)
		}
		for n := range own {
			r.wantRefused(n)
		}
		for _, c := range append(there, admin, r.dial(own)) {
			wantEcho(t, c, "still here")
		}
		if now := r.describe(); !slices.EqualFunc(before, now, sameListener) {
			t.Errorf("listeners %+v, want %+v", now, before)
		}
		if err := r.Restrict(false); err != nil {
			t.Fatal(err)
		}
		if err := r.Restrict(false); err != nil {
			t.Fatalf("open ones are opened: %v", err)
		}
	}
	for _, peer := range r.dialAll(ca) {
		wantEcho(t, peer, "x")
	}
	if now := r.describe(); !slices.EqualFunc(before, now, sameListener) {
		t.Errorf("listeners %+v, want %+v", now, before)
	}
	r.Close()
	if err := r.Restrict(false); err != nil {
		t.Error(err)
	}
	r.wantRefused(0)
}

func sameListener(a, b broker.Listener) bool {
	return a.ID == b.ID && a.Port == b.Port && a.BindAddress == b.BindAddress && slices.Equal(a.Certs, b.Certs)
}

// TestRestrictEndsPendingConnections, except those of the administrators' listener.
func TestRestrictEndsPendingConnections(t *testing.T) {
	t.Parallel()
	r := serve(t, options{Options: listen.Options{Timeout: time.Hour}},
		listen.Config{Protocol: "mqtt", ProxyProtocol: true}, listen.Config{Protocol: "ws"},
		listen.Config{Protocol: "mqtt", ProxyProtocol: true, AdminOnly: true})
	early := []net.Conn{r.dial(0), r.dial(1)}
	admin := r.dial(2)
	eventually(t, "all are open", func() bool { return r.limits.Usage().Open == 3 })
	if err := r.Restrict(true); err != nil {
		t.Fatal(err)
	}
	for _, c := range early {
		wantClosed(t, c)
	}
	wantEchoProxied(t, admin, "10.0.0.1")
	eventually(t, "their places are released", func() bool { return r.limits.Usage().Open == 1 })
	if got := r.counters.Lost(); len(got) != 0 {
		t.Errorf("lost %v", got)
	}
}

// TestBindIsRestricted opens only the listeners for administrators.
func TestBindIsRestricted(t *testing.T) {
	t.Parallel()
	o := listen.Options{Timeout: suite.HangLimit, Limits: limits.New(limits.Config{}, time.Now)}
	s, err := listen.New([]listen.Config{
		{Protocol: "mqtt", Address: "127.0.0.1:0"}, {Protocol: "mqtt", Address: "127.0.0.1:0", AdminOnly: true},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restrict(true); err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Serve(func(c *listen.Conn) {
		io.WriteString(c, "hello")
		c.Close()
	})
	t.Cleanup(func() { s.Close(); s.Wait() })
	if got := s.Listeners()[0].Describe(); got.Port != 0 {
		t.Errorf("the restricted listener has port %d", got.Port)
	}
	if err := s.Restrict(false); err != nil {
		t.Fatal(err)
	}
	for n, l := range s.Listeners() {
		c, err := net.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatalf("listener %d: %v", n, err)
		}
		wantHear(t, c, "hello")
		c.Close()
	}
}

// TestReopenWithAPortInUse opens what it can and the rest when the port is free again.
func TestReopenWithAPortInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	r := serve(t, options{}, listen.Config{Protocol: "mqtt", Address: isolatedAddress}, listen.Config{Protocol: "unix", Address: path})
	if r.HasAdminOnly() {
		t.Error("there is a listener for administrators")
	}
	if err := r.Restrict(true); err != nil {
		t.Fatal(err)
	}
	thief, err := net.Listen("tcp", r.addr(0))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	for range 2 {
		want := "broker cannot listen on " + r.addr(0) + " (listeners[0].address): the port is in use: "
		if err := r.Restrict(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		wantEcho(t, r.dial(1), "x")
	}
	thief.Close()
	if err := r.Restrict(false); err != nil {
		t.Fatal(err)
	}
	wantEcho(t, r.dial(0), "x")
}

// TestRestrictAndClose restricts and connects concurrently until Close, which leaves
// nothing open.
func TestRestrictAndClose(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := serve(t, options{}, listen.Config{Protocol: "mqtt", Address: isolatedAddress}, listen.Config{Protocol: "mqtt", Address: isolatedAddress, AdminOnly: true})
		turned, ended := make(chan struct{}), make(chan struct{})
		var turning sync.WaitGroup
		for g := range 2 {
			turning.Go(func() {
				for n := 0; ; n++ {
					if err := r.Restrict((n+g)%2 == 0); err != nil {
						t.Error(err)
					}
					select {
					case turned <- struct{}{}:
					case <-ended:
						return
					}
				}
			})
			turning.Go(func() {
				for n := 0; ; n++ {
					if c, err := net.Dial("tcp", r.addr(n%2)); err == nil {
						c.Close()
					}
					select {
					case <-ended:
						return
					case <-r.conns:
					default:
					}
				}
			})
		}
		for range 20 {
			<-turned
		}
		r.Close()
		close(ended)
		turning.Wait()
		r.wantRefused(0)
		r.wantRefused(1)
	}
}
