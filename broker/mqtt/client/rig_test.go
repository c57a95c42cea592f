package client

import (
	"context"
	"fmt"
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
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// testTiming has short delays for what is waited for, and long ones for what must not happen.
var testTiming = Timing{
	Connect: suite.HangLimit, ResumeTimeout: suite.HangLimit, Write: suite.HangLimit,
	MinDelay: 5 * time.Millisecond, MaxDelay: 50 * time.Millisecond, Stable: time.Hour,
	Ping: 30 * time.Second, ReadTimeout: time.Minute, Retry: time.Hour, IdleTimeout: 50 * time.Millisecond,
}

// options returns options for a broker at an address.
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
		Timing: testTiming, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// run starts a client and returns a function that stops it, which the end of the test calls as
// well.
func run(t testing.TB, o Options) (f *Client, stop func()) {
	t.Helper()
	f = New(o)
	return f, start(t, f)
}

// start starts a client.
func start(t testing.TB, f *Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() {
		f.StopReceiving()
		cancel()
		select {
		case <-done:
		case <-time.After(suite.HangLimit):
			t.Error("Run does not return")
		}
	}
	t.Cleanup(stop)
	return stop
}

// waitSubscribed waits until every filter is subscribed to.
func waitSubscribed(t testing.TB, f *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	if err := f.WaitSubscribed(ctx); err != nil {
		t.Fatalf("WaitSubscribed() = %v", err)
	}
}

// failing reports whether a subscriber has no connection.
func (l *subscriber) failing() bool {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.failed
}

// sink is a consumer that records messages, and settles them on demand.
type sink struct {
	keeps bool

	mu        sync.Mutex
	taken     []messaging.Message
	notifiers []messaging.CommitNotifier
}

func (s *sink) Keeps() bool { return s.keeps }

func (s *sink) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, m)
	if notifier != nil {
		s.notifiers = append(s.notifiers, notifier)
	}
}

func (s *sink) list() []messaging.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.taken)
}

// payloads returns the payloads received so far.
func (s *sink) payloads() (list []string) {
	for _, m := range s.list() {
		list = append(list, string(m.Payload))
	}
	return list
}

// settle settles what is not settled yet, in reverse order.
func (s *sink) settle() {
	s.mu.Lock()
	list := s.notifiers
	s.notifiers = nil
	s.mu.Unlock()
	for _, notifier := range slices.Backward(list) {
		notifier.Committed(nil)
	}
}

// want waits for exactly these payloads.
func (s *sink) want(t testing.TB, payloads ...string) {
	t.Helper()
	brokertest.WaitFor(t, fmt.Sprintf("%q are taken", payloads), func() bool { return len(s.list()) >= len(payloads) })
	if got := s.payloads(); !slices.Equal(got, payloads) {
		t.Fatalf("got %q, want %q", got, payloads)
	}
}

// take subscribes a sink.
func take(f *Client, filter string, keeps bool) (s *sink, cancel func()) {
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

// join connects a peer.
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

// publish publishes at QoS 1; topics and payloads alternate. The messages have been routed
// when it returns.
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

// subscribe subscribes at QoS 2.
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

// logBuffer collects log output.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logBuffer) has(part string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), part)
}
