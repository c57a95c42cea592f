package engine_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/file"
	"signalbox/broker/wire"
)

// patience is how long something is waited for that must come.
const patience = 20 * time.Second

// broker is an engine with the real store, behind a TCP socket.
type broker struct {
	*engine.Engine
	t     testing.TB
	addr  string
	close func()
	store engine.Store
	dir   string
}

// start runs a broker on the file in dir until the test or close ends it.
func start(t testing.TB, dir string, change ...func(*engine.Config, *engine.Parts)) *broker {
	t.Helper()
	b := prepare(t, dir, change...)
	check(t, b.Resume(t.Context()))
	return b
}

// prepare is start for an engine that is not resumed yet.
func prepare(t testing.TB, dir string, change ...func(*engine.Config, *engine.Parts)) *broker {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	f, err := schema.Open(t.Context(), filepath.Join(dir, "broker.db"), log)
	check(t, err)
	s, err := store.Open(t.Context(), f, store.Options{Durability: file.Process})
	check(t, err)
	c, p := engine.DefaultConfig(), engine.Parts{Store: s, Authority: permissive{}, Watcher: blind{}, Control: func(*engine.Request) {}}
	for _, f := range change {
		f(&c, &p)
	}
	b := &broker{Engine: engine.New(c, p), t: t, store: p.Store, dir: dir}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	b.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { b.accept(l, &serving) })
	b.close = sync.OnceFunc(func() {
		l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Engine.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
			return
		}
		serving.Wait()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the store: %v", err)
		}
		check(t, f.Close())
	})
	t.Cleanup(b.close)
	return b
}

func (b *broker) accept(l net.Listener, serving *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			panic(err)
		}
		serving.Go(func() {
			b.Serve(&engine.Socket{Conn: conn, Raw: raw, Address: "127.0.0.1", Protocol: "MQTT"})
		})
	}
}

// closeEngine ends the engine alone, which must not wait for the store.
func (b *broker) closeEngine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	check(t, b.Engine.Close(ctx))
}

// queue is how many messages wait for a client, or are under way to it.
func (b *broker) queue(clientID string) int64 {
	i, _, err := b.Client(clientID)
	check(b.t, err)
	return i.Queue.Messages
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// permissive lets everybody do everything.
type permissive struct{}

func (permissive) Authenticate(_ context.Context, l *engine.Login) (engine.Admission, error) {
	return engine.Admission{Username: l.Username, Rights: everything{}}, nil
}
func (permissive) Resume(string, string, bool) engine.Rights { return everything{} }
func (permissive) Epoch() uint64                             { return 0 }

type everything struct{}

func (everything) Allowed(engine.Kind, string) bool { return true }
func (everything) Cut() bool                        { return false }
func (everything) Release()                         {}

// blind watches nothing.
type blind struct{}

func (blind) Connected(engine.ClientEvent)                   {}
func (blind) Disconnected(engine.ClientEvent, byte)          {}
func (blind) Refused(engine.ClientEvent, byte, string)       {}
func (blind) Denied(engine.ClientEvent, engine.Kind, string) {}
func (blind) Published(*engine.Message)                      {}

// faulty is the real store with a disk that can be made to fail or to hang.
type faulty struct {
	engine.Store
	mu      sync.Mutex
	failing error             // what is not owed is refused with it, the rest waits
	hanging bool              // everything waits
	waiting []*engine.Changes // in order
}

// withFaulty puts the store into one that can be made to fail.
func withFaulty(into **faulty) func(*engine.Config, *engine.Parts) {
	return func(_ *engine.Config, p *engine.Parts) {
		*into = &faulty{Store: p.Store}
		p.Store = *into
	}
}

func (f *faulty) Submit(c *engine.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.hanging || f.failing != nil && c.Owed:
		f.waiting = append(f.waiting, c)
	case f.failing != nil:
		f.refuse(c, f.failing)
	default:
		f.Store.Submit(c)
	}
}

// refuse has changes come back with an error, in the order of all.
func (f *faulty) refuse(c *engine.Changes, err error) {
	if c.Done != nil {
		f.Store.Submit(&engine.Changes{Done: refusal{c, err}})
	}
}

type refusal struct {
	changes *engine.Changes
	err     error
}

func (r refusal) Settled(*engine.Changes, error) { r.changes.Done.Settled(r.changes, r.err) }

func (f *faulty) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failing
}

var errDisk = errors.New("no space left on device")

// fail makes the disk fail from now on. What waits for one that hung fails, too.
func (f *faulty) fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.hanging = errDisk, false
	waiting := f.waiting
	f.waiting = nil
	for _, c := range waiting {
		if c.Owed {
			f.waiting = append(f.waiting, c)
		} else {
			f.refuse(c, errDisk)
		}
	}
}

// hang makes the disk hang.
func (f *faulty) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging = true
}

// held is how many changes wait.
func (f *faulty) held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}

// work makes the disk work again.
func (f *faulty) work() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing, f.hanging = nil, false
	for _, c := range f.waiting {
		f.Store.Submit(c)
	}
	f.waiting = nil
}

// client is the other side of a connection, packet by packet.
type client struct {
	t       testing.TB
	conn    net.Conn
	in      *bufio.Reader
	version byte
	present bool
}

func (b *broker) dial() *client {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr)
	check(b.t, err)
	b.t.Cleanup(func() { conn.Close() })
	return &client{t: b.t, conn: conn, in: bufio.NewReader(conn), version: wire.V5}
}

// connect opens a connection and waits for CONNACK, which must let it in.
func (b *broker) connect(h wire.Connect) *client {
	b.t.Helper()
	c := b.dial()
	if h.Version == 0 {
		h.Version = wire.V5
	}
	c.version = h.Version
	if h.ReceiveMaximum == 0 {
		h.ReceiveMaximum = 65535
	}
	c.send(wire.AppendConnect(nil, &h))
	p := c.want(wire.TypeConnack)
	if p[3] != 0 {
		b.t.Fatalf("CONNACK refuses: % x", p)
	}
	c.present = p[2] == 1
	return c
}

// keeps is a CONNECT of a session that is kept.
func keeps(id string) wire.Connect {
	return wire.Connect{ClientID: id, SessionExpiry: 3600, HasSessionExpiry: true}
}

// fresh is a CONNECT of a session that ends with its connection.
func fresh(id string) wire.Connect { return wire.Connect{ClientID: id, CleanStart: true} }

func (c *client) send(p []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(p); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// read gives the next packet.
func (c *client) read() ([]byte, error) {
	c.conn.SetReadDeadline(time.Now().Add(patience))
	size := 0
	for n := 2; size == 0; n++ {
		head, err := c.in.Peek(n)
		if err != nil {
			return nil, err
		}
		if size, err = wire.Size(head); err != nil {
			return nil, err
		}
	}
	p := make([]byte, size)
	_, err := io.ReadFull(c.in, p)
	return p, err
}

// want gives the next packet, which must be of a type.
func (c *client) want(kind byte) []byte {
	c.t.Helper()
	p, err := c.read()
	if err != nil {
		c.t.Fatalf("wait for a packet of type %d: %v", kind, err)
	}
	if p[0]>>4 != kind {
		c.t.Fatalf("got a packet % x, want one of type %d", p[:min(len(p), 40)], kind)
	}
	return p
}

// gone waits for the end of the connection.
func (c *client) gone() {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			return
		}
	}
}

func (c *client) subscribe(filter string, options byte) {
	c.t.Helper()
	c.send(wire.AppendSubscribe(nil, c.version, &wire.Subscribe{PacketID: 1, Filters: []wire.Filter{{Filter: filter, Options: options}}}))
	if p := c.want(wire.TypeSuback); p[len(p)-1] >= 0x80 {
		c.t.Fatalf("SUBACK refuses: % x", p)
	}
}

func (c *client) publish(o wire.Outgoing) {
	c.t.Helper()
	c.send(wire.AppendPublish(nil, c.version, &o))
}

func (c *client) ack(kind byte, id uint16) {
	c.t.Helper()
	c.send(wire.AppendAck(nil, c.version, kind, id, 0, ""))
}

// wantAck gives the next packet as an acknowledgement of a type.
func (c *client) wantAck(kind byte) wire.Ack {
	c.t.Helper()
	p := c.want(kind)
	a := wire.Ack{Type: kind, PacketID: binary.BigEndian.Uint16(p[2:])}
	if len(p) > 4 {
		a.Reason = p[4]
	}
	return a
}

// message is a PUBLISH as the client gets it.
type message struct {
	topic, payload string
	qos            byte
	id             uint16
	dup            bool
}

func (c *client) wantMessage() message {
	c.t.Helper()
	return c.parse(c.want(wire.TypePublish))
}

func (c *client) parse(p []byte) message {
	c.t.Helper()
	var pk wire.Publish
	if err := wire.DecodePublish(p, c.version, &pk); err != nil {
		c.t.Fatalf("PUBLISH % x: %v", p, err)
	}
	return message{string(pk.Topic), string(pk.Payload), pk.QoS, pk.PacketID, p[0]&8 != 0}
}

// bye takes leave and waits for the connection to be gone.
func (c *client) bye() {
	c.t.Helper()
	c.send([]byte{wire.TypeDisconnect << 4, 0})
	c.gone()
}
