package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// administrators opens a second listener, whose sockets are AdminOnly.
func (b *broker) administrators() *broker {
	b.T.Helper()
	return b.listen(func(conn net.Conn) {
		b.Serve(&engine.Socket{Conn: conn, Address: "127.0.0.1", Protocol: "MQTT", AdminOnly: true})
	})
}

// listen opens another listener, each of whose connections is passed to serve.
func (b *broker) listen(serve func(net.Conn)) *broker {
	b.T.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(b.T, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serve(conn) })
		}
	})
	b.T.Cleanup(func() {
		l.Close()
		b.close()
		serving.Wait()
	})
	return &broker{Broker: &enginetest.Broker{Engine: b.Engine, T: b.T, Addr: l.Addr().String(), Timeout: suite.HangLimit}}
}

// suspend leaves the clients to another server.
func (b *broker) suspend() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
	defer cancel()
	check(b.T, b.Suspend(ctx, packet.ReasonUseAnotherServer))
}

func (b *broker) resume() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
	defer cancel()
	check(b.T, b.Resume(ctx))
}

// refused checks that a CONNECT is refused with a code.
func (b *broker) refused(h packet.Connect, code byte) {
	b.T.Helper()
	c := b.Dial()
	c.Send(packet.AppendConnect(nil, &h))
	if p := c.Want(packet.TypeConnack); p[3] != code {
		b.T.Errorf("CONNACK % x, want code %#x", p, code)
	}
	c.AwaitClose()
}

// TestSuspendedServesAdministrators serves only administrators, and stores nothing, before the
// first Resume and after Suspend.
func TestSuspendedServesAdministrators(t *testing.T) {
	t.Parallel()
	b := prepare(t, t.TempDir())
	admins := b.administrators()
	for range 3 {
		b.refused(packet.Connect{Version: packet.V5, ClientID: "c"}, packet.ReasonUseAnotherServer)
		b.refused(packet.Connect{Version: packet.V311, ClientID: "c", CleanStart: true}, 3)
		h := keeps("admin")
		h.Version = packet.V5
		admin := admins.Dial()
		admin.Send(packet.AppendConnect(nil, &h))
		if p := admin.Want(packet.TypeConnack); p[2] != 0 || p[3] != 0 || !bytes.Contains(p, []byte{0x11, 0, 0, 0, 0}) {
			t.Errorf("CONNACK % x does not tell that the session ends with the connection", p)
		}
		admin.Subscribe("#", 2)
		admin.Publish(packet.Outgoing{Topic: "a"})
		if m := admin.WantMessage(); m.Topic != "a" {
			t.Errorf("got %v", m)
		}
		for id, o := range []packet.Outgoing{{QoS: 1}, {QoS: 2}, {QoS: 1, Retain: true}} { // their recipients are at another server
			o.Topic, o.Payload, o.PacketID = "a", []byte("1"), uint16(id+1)
			admin.Publish(o)
			kind := packet.TypePuback
			if o.QoS == 2 {
				kind = packet.TypePubrec
			}
			if p := admin.Want(kind); p[4] != packet.ReasonQuotaExceeded {
				t.Errorf("a message of QoS %d is answered with % x", o.QoS, p)
			}
		}
		check(t, b.Publish(&engine.Message{Topic: "c", Payload: []byte("2"), QoS: 1, Retain: true}))
		admin.Ack(packet.TypePuback, admin.WantMessage().ID)
		if _, ok := b.RetainedOf("c"); !ok {
			t.Error("nothing is retained for administrators")
		}
		if deleted, err := b.DeleteRetained("c"); !deleted || err != nil {
			t.Errorf("deleted %v, %v", deleted, err)
		}
		admin.Disconnect()
		until(t, "the session ends with its connection", func() bool { _, _, err := b.Client("admin"); return err != nil })
		b.resume()
		if m, ok := b.RetainedOf("a"); ok {
			t.Errorf("what was retained meanwhile stays: %v", m)
		}
		b.Connect(fresh("c")).Disconnect()
		b.suspend()
	}
}

// TestSuspendDisconnectsClients sends the reason to clients, after what was queued for them.
// Administrators stay, with their subscriptions and queues.
func TestSuspendDisconnectsClients(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	admins := b.administrators()
	admin := admins.Connect(keeps("admin"))
	admin.Subscribe("+/will", 1)
	admin.Subscribe("later", 1)
	other := admins.Connect(fresh("other"))
	h := keeps("c")
	h.Will = &packet.Will{Topic: "c/will", Delay: 3600}
	c := b.Connect(h)
	c.Subscribe("a", 1)
	h = fresh("old")
	h.Version, h.Will = packet.V311, &packet.Will{Topic: "old/will"}
	old := b.Connect(h)
	silent := b.Dial() // has not sent CONNECT
	check(t, b.Publish(&engine.Message{Topic: "a", QoS: 1}))
	check(t, b.Publish(&engine.Message{Topic: "later", QoS: 1}))
	sent := admin.WantMessage()
	b.suspend()
	c.WantMessage()
	if p := c.Want(packet.TypeDisconnect); p[2] != packet.ReasonUseAnotherServer {
		t.Errorf("DISCONNECT % x", p)
	}
	for _, gone := range []*client{c, old, silent} {
		if p, err := gone.Read(); err == nil {
			t.Errorf("got % x", p)
		}
	}
	if total, _ := b.Clients(0, -1); total != 2 {
		t.Errorf("%d sessions are left", total)
	}
	admin.Ack(packet.TypePuback, sent.ID)
	check(t, b.Publish(&engine.Message{Topic: "later", QoS: 1, Payload: []byte("2")}))
	if m := admin.WantMessage(); m.Payload != "2" {
		t.Errorf("got %v", m) // it may be a Will
	}
	i, subscriptions, err := b.Client("admin")
	check(t, err)
	if i.Expiry != 0 || len(subscriptions) != 2 {
		t.Errorf("the administrator's session is %+v with %v", i, subscriptions)
	}
	b.resume()
	other.Subscribe("more", 0) // still works
	if i, _, err := b.Client("c"); err != nil || i.Connected || i.Will == nil {
		t.Errorf("c is %+v, %v", i, err)
	}
	if i, _, err := b.Client("admin"); err != nil || i.Connected {
		t.Errorf("the session that was stored is %+v, %v", i, err)
	}
	for {
		p, err := admin.Read()
		if err != nil {
			t.Fatal("the administrator whose session is there again is not told")
		}
		if p[0]>>4 == packet.TypeDisconnect {
			break
		}
	}
	if !admins.Connect(keeps("admin")).Present {
		t.Error("the administrator's session is not there")
	}
}

// slowLoad is a store whose Load waits for the test.
type slowLoad struct {
	engine.Store
	reading chan struct{} // takes one for each Load
	let     chan struct{}
}

func (s *slowLoad) Load(ctx context.Context) (*engine.Snapshot, error) {
	s.reading <- struct{}{}
	select {
	case <-s.let:
		return s.Store.Load(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func slow(into **slowLoad) func(*engine.Config, *engine.Parts) {
	return func(_ *engine.Config, p *engine.Parts) {
		*into = &slowLoad{Store: p.Store, reading: make(chan struct{}, 1), let: make(chan struct{}, 1)}
		p.Store = *into
	}
}

// TestResumeIsCancelled cancels Resume by its context, by Suspend and by Close, each of which
// leaves the engine suspended.
func TestResumeIsCancelled(t *testing.T) {
	t.Parallel()
	var s *slowLoad
	b := prepare(t, t.TempDir(), slow(&s))
	outcome := make(chan error)
	resume := func(ctx context.Context) {
		go func() { outcome <- b.Resume(ctx) }()
		<-s.reading
	}
	ctx, cancel := context.WithCancel(t.Context())
	resume(ctx)
	waiting := make(chan error)
	go func() { waiting <- b.Resume(ctx) }() // waits for the first
	cancel()
	for _, c := range []chan error{outcome, waiting} {
		if err := <-c; !errors.Is(err, context.Canceled) {
			t.Errorf("resumed: %v", err)
		}
	}
	resume(t.Context())
	b.suspend()
	if err := <-outcome; err == nil {
		t.Error("resumed although suspended")
	}
	b.refused(packet.Connect{Version: packet.V5, ClientID: "c"}, packet.ReasonUseAnotherServer)
	s.let <- struct{}{}
	resume(t.Context())
	check(t, <-outcome)
	check(t, b.Resume(t.Context())) // reads nothing
	b.Connect(fresh("c"))
	b.suspend()
	b.suspend()
	resume(t.Context())
	b.CloseEngine()
	if err := <-outcome; err == nil {
		t.Error("resumed although closed")
	}
	b.suspend()
	if err := b.Resume(t.Context()); err == nil {
		t.Error("resumed although closed")
	}
}

// TestSuspendContinues after its context has ended, and the next Resume waits for it.
func TestSuspendContinues(t *testing.T) {
	t.Parallel()
	started, let := make(chan struct{}), make(chan struct{})
	now := newClock()
	b := start(t, t.TempDir(), func(c *engine.Config, p *engine.Parts) {
		c.Now = now.get
		p.Control = func(*engine.Request) {
			close(started)
			<-let
		}
	})
	admins := b.administrators()
	admin, other := admins.Connect(keeps("admin")), admins.Connect(fresh("other"))
	admin.Subscribe("a", 1)
	h := keeps("away")
	h.Will = &packet.Will{Topic: "a", Payload: []byte("will"), Delay: 1}
	b.Connect(h).Close()
	until(t, "the client is gone", func() bool { i, _, err := b.Client("away"); return err == nil && !i.Connected })
	c := b.Connect(keeps("c"))
	c.Subscribe("b", 1)
	c.Publish(packet.Outgoing{Topic: "$CONTROL/x"})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Suspend(ctx, packet.ReasonUseAnotherServer); !errors.Is(err, context.Canceled) {
		t.Errorf("suspended: %v", err)
	}
	if err := b.Resume(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("resumed: %v", err)
	}
	b.refused(packet.Connect{Version: packet.V5, ClientID: "d"}, packet.ReasonUseAnotherServer)
	now.advance(time.Minute)
	for began := time.Now(); time.Since(began) < 3*time.Second/2; { // until the Will is due
		other.Publish(packet.Outgoing{Topic: "a"})
		if m := admin.WantMessage(); m.Payload != "" {
			t.Errorf("got %v", m)
		}
	}
	close(let)
	b.resume()
	if !b.Connect(keeps("c")).Present {
		t.Error("the session is not there")
	}
}

// TestTapsStayOpen keeps taps open while the engine is suspended and resumed. A message that a
// tap has not committed meanwhile is refused.
func TestTapsStayOpen(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	admin := b.administrators().Connect(fresh("admin"))
	reader := b.Connect(keeps("reader"))
	reader.Subscribe("a", 1)
	d := newDrain(true)
	defer b.Open("a", d)()
	outcome := make(chan error, 1)
	go func() { outcome <- b.Publish(&engine.Message{Topic: "a", Payload: []byte("1"), QoS: 1, Retain: true}) }()
	held := <-d.taken
	b.suspend()
	admin.Publish(packet.Outgoing{Topic: "a", Payload: []byte("2")})
	if m := (<-d.taken).message; string(m.Payload) != "2" {
		t.Errorf("took %s", m.Payload)
	}
	b.resume()
	held.hold.Committed(nil)
	if err := <-outcome; err == nil {
		t.Error("what was held is said to be stored")
	}
	if n := b.queue("reader"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
	b.Connect(fresh("c")).Publish(packet.Outgoing{Topic: "a", Payload: []byte("3")})
	if m := (<-d.taken).message; string(m.Payload) != "3" {
		t.Errorf("took %s", m.Payload)
	}
}

// TestConnectWhileSuspending connects a client whose session is stored when the engine has
// discarded that session and has not ended the connection yet: CONNACK must not report that
// there is no session [MQTT-3.2.2-3].
func TestConnectWhileSuspending(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	for range 3 {
		b.Connect(keeps("c")).Disconnect()
		for i := range 50 { // their connections are ended too, some of them first
			b.Connect(fresh(fmt.Sprint("other-", i)))
		}
		suspended := make(chan struct{})
		b.SetClaims(claimed(func() {
			go func() { defer close(suspended); b.suspend() }()
			for _, err := b.Ownership("c"); err == nil; _, err = b.Ownership("c") {
				runtime.Gosched()
			}
		}))
		if c, err := b.TryConnect(keeps("c")); err == nil {
			if !c.Present {
				t.Error("the client is told that it has no session")
			}
			c.Close()
		}
		b.SetClaims(nil)
		<-suspended
		b.resume()
		c := b.Connect(keeps("c"))
		if !c.Present {
			t.Error("the session is lost")
		}
		c.Disconnect()
	}
}

// claimed is a Claims that runs a function between the log-in of a client and the search for its
// session.
type claimed func()

// Claim claims nothing.
func (f claimed) Claim(context.Context, engine.Claim) (done func(), err error) {
	f()
	return func() {}, nil
}

// TestRefusedAsDecided refuses a message because Err of the store is ErrUncertain, and changes
// Err to nil before the client is answered: the connection ends all the same, and the client
// sends the message to the next leader.
func TestRefusedAsDecided(t *testing.T) {
	t.Parallel()
	store := &onceUncertain{}
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) {
		store.Store = p.Store
		p.Store = store
	})
	b.Connect(keeps("c")).Subscribe("a", 1)
	p := b.Connect(fresh("p"))
	store.uncertain.Store(true)
	p.Publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1})
	if got := p.Want(packet.TypeDisconnect); got[2] != packet.ReasonUseAnotherServer {
		t.Errorf("got % x, want DISCONNECT with code %#x", got, packet.ReasonUseAnotherServer)
	}
}

// onceUncertain is a store whose Err is engine.ErrUncertain once, after the test sets it.
type onceUncertain struct {
	engine.Store
	uncertain atomic.Bool
}

func (s *onceUncertain) Err() error {
	if s.uncertain.CompareAndSwap(true, false) {
		return engine.ErrUncertain
	}
	return s.Store.Err()
}
