//go:build linux

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/embedded/poll"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// watched is a broker whose engine accepts the connections.
type watched struct {
	*broker
	open     atomic.Int64 // connections that hold their places
	received atomic.Int64 // CONNECTs
}

// watch has the engine accept connections on another address.
func (b *broker) watch() *watched {
	b.T.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(b.T, err)
	raw, err := l.(*net.TCPListener).SyscallConn()
	check(b.T, err)
	socket, err := poll.Listen(raw)
	check(b.T, err)
	check(b.T, l.Close())
	w := &watched{broker: &broker{Broker: &enginetest.Broker{Engine: b.Engine, T: b.T, Addr: l.Addr().String(), Timeout: suite.HangLimit}}}
	stop := b.Watch(socket, func() func() {
		conn, peer, err := socket.Accept()
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		check(b.T, err)
		w.open.Add(1)
		b.Serve(&engine.Socket{
			Conn: &places{watched: w}, Polled: conn, OnConnect: func() { w.received.Add(1) },
			IP: peer.Addr(), Address: peer.Addr().String(), Protocol: "MQTT",
		})
		return nil
	})
	b.T.Cleanup(func() {
		stop()
		socket.Socket.Close()
		b.close()
		if n := w.open.Load(); n != 0 {
			b.T.Errorf("%d connections hold their places at the end", n)
		}
	})
	return w
}

// places is what an accepted connection holds.
type places struct {
	net.Conn
	watched *watched
	closed  atomic.Bool
}

func (p *places) Close() error {
	if p.closed.CompareAndSwap(false, true) {
		p.watched.open.Add(-1)
	}
	return nil
}

// connect is a CONNECT of MQTT 3.1.1 with a clean session and a client id of one character.
func connect(id byte) []byte {
	return append([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01"), id)
}

var connack = []byte{packet.TypeConnack << 4, 2, 0, 0}

// wantBytes reads exactly these bytes.
func wantBytes(t *testing.T, c *client, want []byte) {
	t.Helper()
	got, err := c.In.Peek(len(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got % x, %v; want % x", got, err, want)
	}
	c.In.Discard(len(want)) //nolint:errcheck // they are buffered
}

// TestConnectAtEveryByte splits CONNECT and what follows at each byte, and ends the connection at
// each byte.
func TestConnectAtEveryByte(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	w := b.watch()
	sent := append(connect('c'), packet.TypePingreq<<4, 0, packet.TypeDisconnect<<4, 0)
	answers := append(bytes.Clone(connack), packet.TypePingresp<<4, 0)
	for at := range len(sent) {
		c := w.Dial()
		before := b.Totals().BytesReceived
		c.Send(sent[:at])
		until(t, "the first part is read", func() bool { return b.Totals().BytesReceived >= before+int64(at) })
		c.Send(sent[at:])
		wantBytes(t, c, answers)
		c.AwaitClose()

		c = w.Dial()
		c.Send(sent[:at])
		check(t, c.Conn.(*net.TCPConn).CloseWrite())
		switch {
		case at >= len(connect('c'))+2:
			wantBytes(t, c, answers)
		case at >= len(connect('c')):
			wantBytes(t, c, connack)
		}
		c.AwaitClose()
	}
	until(t, "all have ended", func() bool { return b.present() == 0 && w.open.Load() == 0 })
	b.counted()
}

// TestConnectionWithoutConnect ends connections whose CONNECT does not arrive within
// ConnectTimeout, also if the client sends a byte now and then, and no others.
func TestConnectionWithoutConnect(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.ConnectTimeout = patience })
	w := b.watch()
	patient := w.Dial()
	patient.Send(connect('p'))
	wantBytes(t, patient, connack)
	began := time.Now()
	silent, slow := w.Dial(), w.Dial()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		silent.AwaitClose()
		slow.AwaitClose()
	}()
	tick := time.NewTicker(patience / 20)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			slow.TrySend(connect('s')[min(n, 13) : min(n, 13)+1]) //nolint:errcheck // it has ended at last
			continue
		case <-ended:
		}
		break
	}
	if lasted := time.Since(began); lasted < patience {
		t.Errorf("the connections have ended after %s", lasted)
	}
	patient.Ping()
	if n := w.received.Load(); n != 1 {
		t.Errorf("%d CONNECTs were received, want one", n)
	}
}

// TestTakeOverByTheLoop replaces the connection of a client id again and again. The client id has
// one connection at any time, and the last one stays.
func TestTakeOverByTheLoop(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	w := b.watch()
	c := w.Dial()
	c.Send(connect('c'))
	wantBytes(t, c, connack)
	for range 50 {
		next := w.Dial()
		next.Send(connect('c'))
		wantBytes(t, next, connack)
		c.AwaitClose()
		c = next
	}
	c.Ping()
	if n := b.present(); n != 1 {
		t.Errorf("%d clients are connected, want one", n)
	}
}

// TestConnectsThatWait connects clients that need the store, a log-in that waits, or a refusal.
func TestConnectsThatWait(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Authority = &slowAuthority{} })
	w := b.watch()
	h := keeps("stored")
	h.Username, h.HasUsername = "slow", true
	for n := range 5 {
		c := w.Connect(h)
		if c.Present != (n > 0) {
			t.Errorf("connect %d: session present %v", n, c.Present)
		}
		if n == 0 {
			c.Subscribe("t", 1)
		}
		c.Disconnect()
		c.AwaitClose()
	}
	will := fresh("will")
	will.Will = &packet.Will{Topic: "t", Payload: []byte("x"), QoS: 1}
	w.Connect(will).Close()
	c := w.Connect(h)
	if m := c.WantMessage(); m.Payload != "x" {
		t.Errorf("got %q, want the Will", m.Payload)
	}
	refused := fresh("refused")
	refused.Username, refused.HasUsername = "stranger", true
	if _, err := w.TryConnect(refused); !errors.Is(err, enginetest.Refused(packet.ReasonNotAuthorized)) {
		t.Errorf("a stranger: %v", err)
	}
	garbage := w.Dial()
	garbage.Send([]byte("GET / HTTP/1.1\r\n\r\n"))
	garbage.AwaitClose()
	again := w.Dial()
	again.Send(append(connect('a'), connect('a')...)) // a second CONNECT [MQTT-3.1.0-2]
	wantBytes(t, again, connack)
	again.AwaitClose()
	until(t, "one is left", func() bool { return w.open.Load() == 1 })
}

// slowAuthority waits for every log-in of one username, and refuses another at once.
type slowAuthority struct{ permissive }

func (a *slowAuthority) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	switch {
	case l.Username == "slow" && l.AtOnce:
		return engine.Admission{}, engine.ErrWaits
	case l.Username == "stranger":
		return engine.Admission{}, &engine.Refusal{Reason: packet.ReasonNotAuthorized, Text: "a stranger"}
	}
	return a.permissive.Authenticate(ctx, l)
}

// TestConnectThatPanics ends only the connection whose log-in panics.
func TestConnectThatPanics(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Authority = panickingAuthority{} })
	w := b.watch()
	c := w.Connect(fresh("c"))
	h := fresh("panic")
	if _, err := w.TryConnect(h); err == nil {
		t.Error("the client is connected")
	}
	c.Ping()
	until(t, "one is left", func() bool { return w.open.Load() == 1 })
}

type panickingAuthority struct{ permissive }

func (a panickingAuthority) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	if l.ClientID == "panic" {
		panic("deliberate")
	}
	return a.permissive.Authenticate(ctx, l)
}

// TestManySubscriptionsEnd ends the connection of a client with more subscriptions than a loop
// removes.
func TestManySubscriptionsEnd(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	w := b.watch()
	c := w.Connect(fresh("c"))
	for n := range 100 {
		c.Subscribe(fmt.Sprint("t/", n), 0)
	}
	c.Disconnect()
	c.AwaitClose()
	until(t, "the session has ended", func() bool { return b.Counts().Subscriptions == 0 && b.present() == 0 })
	b.counted()
}

// TestBytesOfASlowReader counts what is written while the client is waited for.
func TestBytesOfASlowReader(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	w := b.watch()
	slow, publisher := w.Connect(fresh("slow")), w.Connect(fresh("p"))
	slow.Subscribe("a", 0)
	before := b.Totals().BytesSent
	const n, size = 16, 1 << 20
	for range n {
		publisher.Publish(packet.Outgoing{Topic: "a", Payload: make([]byte, size)})
	}
	publisher.Ping()
	for range n {
		slow.WantMessage()
	}
	until(t, "all bytes are counted", func() bool { return b.Totals().BytesSent >= before+n*size })
}

// fullStore is a store that is full until emptied is closed.
type fullStore struct {
	engine.Store
	full    atomic.Bool
	emptied chan struct{}
}

func (s *fullStore) Full() bool { return s.full.Load() }

func (s *fullStore) WaitForCapacity() {
	if s.full.Load() {
		<-s.emptied
	}
}

// TestConnectWhileStoreIsFull lets clients in while others wait for the store.
func TestConnectWhileStoreIsFull(t *testing.T) {
	t.Parallel()
	var store *fullStore
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) {
		store = &fullStore{Store: p.Store, emptied: make(chan struct{})}
		p.Store = store
	})
	w := b.watch()
	first := w.Dial()
	first.Send(connect('a'))
	wantBytes(t, first, connack)
	store.full.Store(true)
	first.Send([]byte{packet.TypePingreq << 4, 0})
	for id := range byte(10) {
		c := w.Dial()
		c.Send(connect('b' + id))
		wantBytes(t, c, connack)
	}
	store.full.Store(false)
	close(store.emptied)
	wantBytes(t, first, []byte{packet.TypePingresp << 4, 0})
}
