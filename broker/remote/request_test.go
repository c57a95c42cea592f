package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/dynsec"
)

// behind starts a Mosquitto and connects through a proxy that can break.
func behind(t *testing.T) (*brokertest.Server, *brokertest.Proxy, *Broker) {
	t.Helper()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := withTree(server.Target())
	target.URL = proxy.URL
	return server, proxy, connected(t, target)
}

// exists returns, when the broker is connected again, whether a client exists.
func exists(t *testing.T, b *Broker, username string) bool {
	t.Helper()
	brokertest.WaitFor(t, "the broker is connected again", func() bool { return b.Ready(t.Context()) == nil })
	_, err := b.GetClient(t.Context(), username)
	if err != nil && broker.KindOf(err) != broker.NotFound {
		t.Fatalf("GetClient(%q) = %v", username, err)
	}
	return err == nil
}

func TestFault(t *testing.T) {
	t.Parallel()
	garbage := []byte("\x90\x7f" + strings.Repeat("\x00", 0x7f)) // a SUBACK for more filters than were sent
	for name, c := range map[string]struct {
		set      func(*brokertest.Proxy) <-chan struct{}
		happened bool
		losing   bool
	}{
		"cut before the command arrives":       {func(p *brokertest.Proxy) <-chan struct{} { return p.CutBefore(brokertest.Publish) }, false, true},
		"cut after the command arrived":        {func(p *brokertest.Proxy) <-chan struct{} { return p.CutAfter(brokertest.Publish) }, true, true},
		"the answer is dropped":                {(*brokertest.Proxy).DropAnswers, true, false},
		"the broker falls silent":              {(*brokertest.Proxy).Silence, true, false},
		"garbage in place of the answer":       {func(p *brokertest.Proxy) <-chan struct{} { return p.Garbage(garbage) }, true, true},
		"a broken packet in place of it":       {func(p *brokertest.Proxy) <-chan struct{} { return p.Garbage([]byte{0x30, 3, 0, 9, 'x'}) }, true, true},
		"an answer that never ends is no MQTT": {func(p *brokertest.Proxy) <-chan struct{} { return p.Garbage([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1}) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, proxy, b := behind(t)
			struck := c.set(proxy)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !c.losing {
				go func() { <-struck; cancel() }()
			}
			err := b.CreateClient(ctx, broker.ClientSpec{Username: "u"})
			wantKind(t, err, broker.Unconfirmed)
			<-struck
			proxy.Pass()
			if got := exists(t, b, "u"); got != c.happened {
				t.Errorf("the client is there: %v, want %v", got, c.happened)
			}
			if want := map[bool]int{true: 2, false: 1}[c.losing]; proxy.Accepted() != want {
				t.Errorf("%d connections were made, want %d", proxy.Accepted(), want)
			}
			if n := waiting(t, b); n > 0 {
				t.Errorf("%d calls are still waited for", n)
			}
		})
	}
}

// waiting returns the number of commands of dynamic security that wait for a response.
func waiting(t *testing.T, b *Broker) (n int) {
	t.Helper()
	s, err := b.link.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.pending.mu.Lock()
	defer s.pending.mu.Unlock()
	for _, c := range s.pending.calls {
		if c.topic == dynsec.Topic {
			n++
		}
	}
	return n
}

func TestRestart(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	b := connected(t, server.Target())
	if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: "kept"}); err != nil {
		t.Fatal(err)
	}
	up := b.Status()
	server.Stop(t)
	brokertest.WaitFor(t, "the broker is known to be gone", func() bool {
		return strings.Contains(b.Status().Error, "refuses connections")
	})
	down := b.Status()
	if down.Connected || !down.Since.After(up.Since) {
		t.Errorf("Status() = %+v after %+v", down, up)
	}
	e := wantKind(t, b.CreateClient(t.Context(), broker.ClientSpec{Username: "x"}), broker.Unavailable)
	if e.Msg != b.Status().Error {
		t.Errorf("CreateClient() = %v", e)
	}
	if len(b.Capabilities()) == 0 {
		t.Error("what the broker could do is forgotten")
	}
	server.Start(t)
	brokertest.WaitFor(t, "the broker is connected again", func() bool { return b.Ready(t.Context()) == nil })
	if !exists(t, b, "kept") || exists(t, b, "x") {
		t.Error("the broker does not hold what was done")
	}
	if s := b.Status(); !s.Connected || s.Error != "" || !s.Since.After(down.Since) {
		t.Errorf("Status() = %+v after %+v", s, down)
	}
}

func TestLoss_is_made_good_at_once(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL = proxy.URL
	d := quick()
	d.timing.minDelay, d.timing.maxDelay, d.timing.retryInterval = time.Hour, time.Hour, time.Hour
	b := open(t, d, target)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := proxy.Hold()
	proxy.Cut()
	brokertest.WaitFor(t, "the loss was noticed", func() bool { return proxy.Accepted() == 2 })
	<-held
	if _, changed, _ := b.link.poll([]phase{connecting}); changed == nil || b.Status().Connected {
		t.Errorf("commands do not wait for the next connection: %+v", b.Status())
	}
	proxy.Pass()
	if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: "u"}); err != nil {
		t.Errorf("CreateClient() while connecting again = %v", err)
	}
	proxy.Cut() // the second connection was short: now there is a delay
	brokertest.WaitFor(t, "the next loss was noticed", func() bool { return !b.Status().Connected })
	e := wantKind(t, b.CreateClient(t.Context(), broker.ClientSpec{Username: "v"}), broker.Unavailable)
	if !strings.Contains(e.Msg, "connection to the broker was lost") {
		t.Errorf("CreateClient() = %v", e)
	}
}

func TestLoss_of_a_good_connection_is_always_made_good_at_once(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL = proxy.URL
	d := quick()
	d.timing.minDelay, d.timing.maxDelay, d.timing.stable = time.Hour, time.Hour, 0
	b := open(t, d, target)
	for n := range 4 {
		brokertest.WaitFor(t, "the broker is connected", func() bool { return proxy.Accepted() == n+1 && b.Ready(t.Context()) == nil })
		proxy.Cut()
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for troubles, want := range map[int][2]time.Duration{
		0:   {time.Second, 2 * time.Second},
		1:   {2 * time.Second, 4 * time.Second},
		3:   {8 * time.Second, 16 * time.Second},
		4:   {15 * time.Second, 30 * time.Second},
		500: {15 * time.Second, 30 * time.Second},
	} {
		for range 100 {
			if got := defaultTiming.delay(troubles); got < want[0] || got > want[1] {
				t.Fatalf("pause(%d) = %v, want between %v and %v", troubles, got, want[0], want[1])
			}
		}
	}
}

// Every client receives all responses, and must find its own.
func TestAnswers_of_others_are_ignored(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	var wg sync.WaitGroup
	for admin := range 3 {
		b := connected(t, server.Target())
		for worker := range 4 {
			wg.Go(func() {
				for i := range 10 {
					name := fmt.Sprintf("u%d-%d-%d", admin, worker, i)
					if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: name}); err != nil {
						t.Errorf("CreateClient(%s) = %v", name, err)
						return
					}
					if c, err := b.GetClient(t.Context(), name); err != nil || c.Username != name {
						t.Errorf("GetClient(%s) = %q, %v", name, c.Username, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestClose(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	t.Run("operations are Unavailable afterwards", func(t *testing.T) {
		t.Parallel()
		b := connected(t, server.Target())
		for range 2 {
			if err := b.Close(t.Context()); err != nil {
				t.Errorf("Close() = %v", err)
			}
		}
		_, err := b.GetClient(t.Context(), "u")
		wantKind(t, err, broker.Unavailable)
		wantKind(t, b.Ready(t.Context()), broker.Unavailable)
		if b.Status().Connected {
			t.Error("Status() says that it is connected")
		}
	})
	t.Run("an operation under way is Unconfirmed", func(t *testing.T) {
		t.Parallel()
		proxy := brokertest.NewProxy(t, server.Addr)
		target := server.Target()
		target.URL = proxy.URL
		b := connected(t, target)
		struck := proxy.Silence()
		done := make(chan error, 1)
		go func() { done <- b.DeleteClient(context.Background(), "nobody") }()
		<-struck
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v", err)
		}
		wantKind(t, <-done, broker.Unconfirmed)
	})
	t.Run("connecting ends", func(t *testing.T) {
		t.Parallel()
		addr := accepting(t, func(conn net.Conn) { t.Cleanup(func() { conn.Close() }) })
		for _, scheme := range []string{"mqtt", "mqtts", "ws", "wss"} {
			d := quick()
			d.timing.connectTimeout = time.Hour
			b := open(t, d, broker.Target{URL: scheme + "://" + addr})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := b.Ready(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Ready() = %v, want the context's error", err)
			}
			wantKind(t, b.DeleteClient(ctx, "u"), broker.Unavailable)
			if err := b.Close(t.Context()); err != nil {
				t.Errorf("%s: Close() = %v", scheme, err)
			}
		}
	})
	t.Run("resting ends", func(t *testing.T) {
		t.Parallel()
		d := quick()
		d.timing.minDelay, d.timing.maxDelay = time.Hour, time.Hour
		b := open(t, d, broker.Target{URL: "mqtt://127.0.0.1:1"})
		wantKind(t, b.Ready(t.Context()), broker.Unavailable)
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
}

// A command that is still queued when its caller stops waiting is never sent.
func TestCall_not_sent(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(*session, context.CancelFunc){
		"the caller leaves":      func(_ *session, cancel context.CancelFunc) { cancel() },
		"the connection is lost": func(s *session, _ context.CancelFunc) { s.end(errLost) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &session{pending: newPending("i"), out: make(chan *call, 1), lost: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, queue := range []string{"room in the queue", "no room in the queue"} {
				c := newCall("topic", "i/"+queue, nil)
				done := make(chan error, 1)
				go func() {
					_, err := s.ask(ctx, c)
					done <- err
				}()
				if queue == "room in the queue" {
					brokertest.WaitFor(t, "the call is queued", func() bool { return len(s.out) == 1 })
					giveUp(s, cancel)
				}
				if err := <-done; !errors.Is(err, errNotSent) {
					t.Errorf("%s: ask() = %v, want errNotSent", queue, err)
				}
			}
			s.publish(<-s.out) // without a client: it would panic if it sent
			if len(s.pending.calls) != 0 {
				t.Errorf("%d calls are still waited for", len(s.pending.calls))
			}
		})
	}
}

func TestCorrelation_names_the_request(t *testing.T) {
	t.Parallel()
	type key struct{}
	d := quick()
	d.RequestID = func(ctx context.Context) string {
		id, _ := ctx.Value(key{}).(string)
		return id
	}
	b := open(t, d, broker.Target{URL: "mqtt://127.0.0.1:1"})
	plain := b.correlation(t.Context())
	named := b.correlation(context.WithValue(t.Context(), key{}, "9f3c"))
	if !strings.HasPrefix(named, b.instance+"/9f3c/") || !strings.HasPrefix(plain, b.instance+"/") || plain == named {
		t.Errorf("correlation() = %q and %q", plain, named)
	}
}
