package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// quick is a timing for tests: what has to be waited for does not take long, what
// must not happen has time enough not to.
var quick = Timing{
	Connect: suite.HangLimit, Answer: suite.HangLimit, Write: suite.HangLimit,
	MinPause: 5 * time.Millisecond, MaxPause: 50 * time.Millisecond, Stable: time.Hour,
	Ping: 30 * time.Second, Silence: time.Minute, Retry: time.Hour, Linger: 50 * time.Millisecond,
}

// options connect to a broker at an address.
func options(server *brokertest.Server, addr string) Options {
	return Options{
		Open: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		},
		Await: func(ctx context.Context) error { return ctx.Err() },
		Explain: func(err error) *broker.Error {
			return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: "no connection", Err: err}
		},
		ClientID: "streams", Username: server.AdminUsername, Password: server.AdminPassword,
		Timing: quick, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// run makes a feed and starts it, and gives what ends it, which the end of the
// test does too.
func run(t testing.TB, o Options) (f *Feed, stop func()) {
	t.Helper()
	f = New(o)
	return f, start(t, f)
}

// start starts a feed.
func start(t testing.TB, f *Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() {
		f.Leave()
		cancel()
		select {
		case <-done:
		case <-time.After(suite.HangLimit):
			t.Error("the feed does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

// settle waits until everything wanted is subscribed to.
func settle(t testing.TB, f *Feed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	if err := f.Settled(ctx); err != nil {
		t.Fatalf("Settled() = %v", err)
	}
}

// failing tells whether a lane has no connection.
func (l *lane) failing() bool {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	return l.failed
}

// sink is an inlet that keeps what it takes, and settles when it is told to.
type sink struct {
	keeps bool

	mu       sync.Mutex
	taken    []messaging.Message
	settlers []messaging.Settler
}

func (s *sink) Keeps() bool { return s.keeps }

func (s *sink) Take(m messaging.Message, settler messaging.Settler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, m)
	if settler != nil {
		s.settlers = append(s.settlers, settler)
	}
}

func (s *sink) list() []messaging.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken)
}

// payloads are those of the messages so far.
func (s *sink) payloads() (list []string) {
	for _, m := range s.list() {
		list = append(list, string(m.Payload))
	}
	return list
}

// settle settles what is not settled yet, the last first.
func (s *sink) settle() {
	s.mu.Lock()
	list := s.settlers
	s.settlers = nil
	s.mu.Unlock()
	for _, settler := range slices.Backward(list) {
		settler.Settled(nil)
	}
}

// want waits for as many messages, which must be these and not more.
func (s *sink) want(t testing.TB, payloads ...string) {
	t.Helper()
	brokertest.WaitFor(t, fmt.Sprintf("%q are taken", payloads), func() bool { return len(s.list()) >= len(payloads) })
	if got := s.payloads(); !slices.Equal(got, payloads) {
		t.Fatalf("got %q, want %q", got, payloads)
	}
}

// take subscribes a sink.
func take(f *Feed, filter string, keeps bool) (s *sink, cancel func()) {
	s = &sink{keeps: keeps}
	return s, f.Subscribe(filter, s)
}

// peer is another client of the broker, with MQTT 5.
type peer struct {
	*paho.Client
	t    testing.TB
	got  chan *paho.Publish
	over sync.Once
}

// join connects a client.
func join(t testing.TB, server *brokertest.Server) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, got: make(chan *paho.Publish, 10_000)}
	p.Client = paho.NewClient(paho.ClientConfig{Conn: conn, PacketTimeout: suite.HangLimit, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(r paho.PublishReceived) (bool, error) { p.got <- r.Packet; return true, nil },
	}})
	connect := &paho.Connect{KeepAlive: 60, CleanStart: true, UsernameFlag: true, PasswordFlag: true,
		Username: server.AdminUsername, Password: []byte(server.AdminPassword)}
	if _, err := p.Connect(t.Context(), connect); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.leave)
	return p
}

func (p *peer) leave() {
	p.over.Do(func() {
		p.Disconnect(&paho.Disconnect{})
		<-p.Done()
	})
}

// publish publishes messages with QoS 1, topic and payload by turns. When it
// returns they have been routed.
func (p *peer) publish(pairs ...string) {
	p.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		p.send(&paho.Publish{Topic: pairs[i], Payload: []byte(pairs[i+1]), QoS: 1})
	}
}

func (p *peer) send(m *paho.Publish) {
	p.t.Helper()
	if _, err := p.Publish(context.Background(), m); err != nil {
		p.t.Fatalf("publish: %v", err)
	}
}

// subscribe subscribes with QoS 2.
func (p *peer) subscribe(filter string) {
	p.t.Helper()
	s := &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 2}}}
	if _, err := p.Subscribe(p.t.Context(), s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) next() *paho.Publish {
	p.t.Helper()
	select {
	case m := <-p.got:
		return m
	case <-time.After(suite.HangLimit):
		p.t.Fatal("no message")
		return nil
	}
}

// only311 stands before a broker and answers MQTT 5 as one that speaks nothing
// but 3.1.1 does: with code 1, or by hanging up.
func only311(t testing.TB, target string, hangUp bool) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { join311(conn, target, hangUp) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

func join311(conn net.Conn, target string, hangUp bool) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if p, err := in.Peek(9); err != nil || p[8] != packet.V311 {
		if !hangUp {
			conn.Write([]byte{packet.TypeConnack << 4, 2, 0, 1})
		}
		return
	}
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(conn, up)
		conn.Close()
	})
	io.Copy(up, in)
	up.(*net.TCPConn).CloseWrite()
	wg.Wait()
}

// journal is a log to look into.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(part string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), part)
}
