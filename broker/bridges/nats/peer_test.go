package nats_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// peer is an in-process NATS server, which can be restarted on the same port with the same data.
type peer struct {
	options server.Options
	server  *server.Server
	url     string
}

func startPeer(t *testing.T, change func(*server.Options)) *peer {
	t.Helper()
	address := brokertest.FreePort(t, "127.0.0.1")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{url: "nats://" + address, options: server.Options{Host: "127.0.0.1", JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		AuthTimeout: suite.HangLimit.Seconds(), TLSTimeout: suite.HangLimit.Seconds()}}
	if p.options.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&p.options)
	}
	p.start(t)
	t.Cleanup(p.stop)
	return p
}

func (p *peer) start(t testing.TB) {
	t.Helper()
	o := p.options // the server modifies its own copy
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatalf("make a NATS server: %v", err)
	}
	p.server = s
	s.Start()
	if !s.ReadyForConnections(bridgestest.Patience) {
		t.Fatal("the NATS server does not become ready")
	}
}

func (p *peer) stop() {
	p.server.Shutdown()
	p.server.WaitForShutdown()
}

// client connects to the server as a subscriber.
func (p *peer) client(t testing.TB, opts ...natsgo.Option) *natsgo.Conn {
	t.Helper()
	nc, err := natsgo.Connect(p.url, append(opts, natsgo.Timeout(suite.HangLimit))...)
	if err != nil {
		t.Fatalf("connect to NATS: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// subscribe subscribes, and returns when the server has processed that.
func subscribe(t testing.TB, nc *natsgo.Conn, subject string) *natsgo.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = nc.FlushTimeout(bridgestest.Patience)
	}
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return sub
}

func next(t testing.TB, sub *natsgo.Subscription) *natsgo.Msg {
	t.Helper()
	m, err := sub.NextMsg(suite.HangLimit)
	if err != nil {
		t.Fatalf("no message: %v", err)
	}
	return m
}

// addStream creates a stream for a subject with a maximum size of messages.
func (p *peer) addStream(t testing.TB, name, subject string, size int32, opts ...natsgo.Option) {
	t.Helper()
	js, err := p.client(t, opts...).JetStream(natsgo.MaxWait(suite.HangLimit))
	if err == nil {
		_, err = js.AddStream(&natsgo.StreamConfig{Name: name, Subjects: []string{subject}, MaxMsgSize: size})
	}
	if err != nil {
		t.Fatalf("make a stream: %v", err)
	}
}

// stored returns the messages of a stream, of which there must be count.
func (p *peer) stored(t testing.TB, name, subject string, count int, opts ...natsgo.Option) (all []*natsgo.Msg) {
	t.Helper()
	js, err := p.client(t, opts...).JetStream(natsgo.MaxWait(suite.HangLimit))
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != uint64(count) {
		t.Fatalf("the stream has %d messages, want %d", info.State.Msgs, count)
	}
	sub, err := js.SubscribeSync(subject, natsgo.OrderedConsumer())
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		all = append(all, next(t, sub))
	}
	return all
}

func withoutStreams(o *server.Options) { o.JetStream = false }
