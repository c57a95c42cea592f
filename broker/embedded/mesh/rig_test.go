package mesh_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/mesh"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/file"
	"signalbox/broker/wire"
)

// patience is how long something is waited for that must come.
const patience = 30 * time.Second

// fabric connects the nodes of a test, and can be cut.
type fabric struct {
	t     testing.TB
	mu    sync.Mutex
	nodes map[int]*node
	conns map[[2]int][]*muted // from, to
	cut   map[[2]int]bool
	grace time.Duration
	log   *agreement // nil for none
	many  bool       // messages may be under way to and from a client
	wrap  func(id int, s engine.Store) engine.Store
}

// node is an engine with the real store, behind a TCP socket, and its mesh.
type node struct {
	*engine.Engine
	t      testing.TB
	fabric *fabric
	id     int
	dir    string
	addr   string
	mesh   *mesh.Mesh
	close  func()
}

// weave starts some nodes that know each other.
func weave(t testing.TB, n int, change ...func(*fabric)) (*fabric, []*node) {
	t.Helper()
	f := &fabric{t: t, nodes: map[int]*node{}, conns: map[[2]int][]*muted{}, cut: map[[2]int]bool{}}
	for _, c := range change {
		c(f)
	}
	var all []*node
	for i := range n {
		all = append(all, f.start(i+1, t.TempDir()))
	}
	for _, one := range all {
		one.mesh.SetPeers(f.ids())
	}
	for _, one := range all {
		one.linked(n - 1)
	}
	return f, all
}

func (f *fabric) ids() (ids []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.nodes {
		ids = append(ids, id)
	}
	return ids
}

// start runs a node on the file in dir.
func (f *fabric) start(id int, dir string) *node {
	f.t.Helper()
	t := f.t
	db, err := schema.Open(t.Context(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	check(t, err)
	s, err := store.Open(t.Context(), db, store.Options{Durability: file.Process})
	check(t, err)
	n := &node{t: t, fabric: f, id: id, dir: dir}
	parts := engine.Parts{Store: s, Authority: permissive{}, Watcher: blind{}, Control: func(*engine.Request) {}}
	if f.log != nil {
		parts.Store = agreeing{s, f.log}
	}
	if f.wrap != nil {
		parts.Store = f.wrap(id, s)
	}
	c := engine.DefaultConfig()
	if f.many {
		c.ReceiveMaximum, c.MaxInflight = 65_535, 65_535
	}
	n.Engine = engine.New(c, parts)
	check(t, n.Load(t.Context()))
	if f.log != nil {
		n.AgreeRetained(true)
		f.log.follow(n, s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	n.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { n.accept(l, &serving) })
	n.mesh = mesh.New(mesh.Options{Self: id, Engine: n.Engine, Net: dialer{f, id}, Grace: f.grace})
	n.close = sync.OnceFunc(func() {
		l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		check(t, n.Engine.Close(ctx))
		n.mesh.Close()
		serving.Wait()
		if f.log != nil {
			f.log.close()
		}
		check(t, s.Close(ctx))
		check(t, db.Close())
	})
	t.Cleanup(n.close)
	f.mu.Lock()
	f.nodes[id] = n
	f.mu.Unlock()
	return n
}

func (n *node) accept(l net.Listener, serving *sync.WaitGroup) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			panic(err)
		}
		serving.Go(func() { n.Serve(&engine.Socket{Conn: conn, Raw: raw, Address: "127.0.0.1", Protocol: "MQTT"}) })
	}
}

// linked waits until messages can be sent to some other nodes.
func (n *node) linked(to int) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("node %d is linked to %d others", n.id, to), func() bool {
		linked := 0
		for _, f := range n.mesh.Figures() {
			if f.Linked {
				linked++
			}
		}
		return linked == to
	})
}

// figures gives those of the link to another node.
func (n *node) figures(to int) mesh.Figures {
	for _, f := range n.mesh.Figures() {
		if f.Node == to {
			return f
		}
	}
	return mesh.Figures{}
}

// dialer is the net as one node has it.
type dialer struct {
	fabric *fabric
	self   int
}

func (d dialer) Dial(_ context.Context, to int) (net.Conn, error) {
	f, way := d.fabric, [2]int{d.self, to}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[to]
	if f.cut[way] || n == nil {
		return nil, fmt.Errorf("no way from %d to %d", d.self, to)
	}
	here, there, err := pair()
	if err != nil {
		return nil, err
	}
	conn := &muted{here, make(chan struct{})}
	f.conns[way] = append(f.conns[way], conn)
	n.mesh.Accept(d.self, there)
	return conn, nil
}

// pair makes two ends of a connection.
func pair() (here, there net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	there, err = l.Accept()
	return here, there, err
}

// breaks ends the connections from a node to another; with cut, none can be made
// until heal.
func (f *fabric) breaks(from, to int, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		c.Close()
	}
	f.conns[way], f.cut[way] = nil, cut
}

func (f *fabric) heal(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[[2]int{from, to}] = false
}

// connections is how many were made from a node to another since they were broken
// or muted.
func (f *fabric) connections(from, to int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns[[2]int{from, to}])
}

// mute has nothing go over the connections from a node to another any more.
func (f *fabric) mute(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		close(c.mute)
	}
	f.conns[way] = nil
}

// forget has nobody reach a node.
func (f *fabric) forget(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, id)
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

// client is the other side of a connection, packet by packet.
type client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// connect opens a connection; with kept, of a session that is.
func (n *node) connect(id string, kept bool, change ...func(*wire.Connect)) *client {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	check(n.t, err)
	n.t.Cleanup(func() { conn.Close() })
	c := &client{t: n.t, conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	h := wire.Connect{Version: wire.V5, ClientID: id, CleanStart: !kept, ReceiveMaximum: 65535}
	if kept {
		h.SessionExpiry, h.HasSessionExpiry = 3600, true
	}
	for _, f := range change {
		f(&h)
	}
	c.send(wire.AppendConnect(nil, &h))
	if p := c.want(wire.TypeConnack); p[3] != 0 {
		n.t.Fatalf("CONNACK refuses: % x", p)
	}
	return c
}

func (c *client) send(p []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(p); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

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

func (c *client) subscribe(filter string, options byte) {
	c.t.Helper()
	c.send(wire.AppendSubscribe(nil, wire.V5, &wire.Subscribe{PacketID: 1, Filters: []wire.Filter{{Filter: filter, Options: options}}}))
	if p := c.want(wire.TypeSuback); p[len(p)-1] >= 0x80 {
		c.t.Fatalf("SUBACK refuses: % x", p)
	}
}

func (c *client) unsubscribe(filter string) {
	c.t.Helper()
	c.send(wire.AppendUnsubscribe(nil, wire.V5, &wire.Unsubscribe{PacketID: 1, Filters: []string{filter}}))
	c.want(wire.TypeUnsuback)
}

// publish sends a message and waits for its acknowledgement, whose reason it gives.
func (c *client) publish(o wire.Outgoing) byte {
	c.t.Helper()
	c.send(wire.AppendPublish(nil, wire.V5, &o))
	switch o.QoS {
	case 1:
		return reason(c.want(wire.TypePuback))
	case 2:
		code := reason(c.want(wire.TypePubrec))
		if code < 0x80 {
			c.send(wire.AppendAck(nil, wire.V5, wire.TypePubrel, o.PacketID, 0, ""))
			c.want(wire.TypePubcomp)
		}
		return code
	}
	return 0
}

func reason(p []byte) byte {
	if len(p) > 4 {
		return p[4]
	}
	return 0
}

// message is a PUBLISH as the client gets it.
type message struct {
	topic, payload string
	qos            byte
	retain         bool
}

// next gives the next message, and acknowledges it to the end.
func (c *client) next() message {
	c.t.Helper()
	m, ok := c.tryNext()
	if !ok {
		c.t.Fatal("wait for a message: the connection has ended")
	}
	return m
}

// tryNext is next, but answers false at the end of the connection.
func (c *client) tryNext() (message, bool) {
	for {
		p, err := c.read()
		if err != nil {
			return message{}, false
		}
		if m, ok := c.take(p); ok {
			return m, true
		}
	}
}

// take deals with a packet and gives the message, if it is one.
func (c *client) take(p []byte) (m message, is bool) {
	switch p[0] >> 4 {
	case wire.TypePubrel:
		c.conn.Write(wire.AppendAck(nil, wire.V5, wire.TypePubcomp, uint16(p[2])<<8|uint16(p[3]), 0, "")) //nolint:errcheck // reading will tell
	case wire.TypePublish:
		var pk wire.Publish
		if err := wire.DecodePublish(p, wire.V5, &pk); err != nil {
			c.t.Errorf("PUBLISH % x: %v", p, err)
		}
		if pk.QoS > 0 {
			c.conn.Write(wire.AppendAck(nil, wire.V5, wire.TypePuback+pk.QoS-1, pk.PacketID, 0, "")) //nolint:errcheck // reading will tell
		}
		return message{string(pk.Topic), string(pk.Payload), pk.QoS, p[0]&1 != 0}, true
	}
	return m, false
}

// drained sees to it that no message is left.
func (c *client) drained() {
	c.send([]byte{wire.TypePingreq << 4, 0})
	for {
		p, err := c.read()
		if err != nil {
			c.t.Errorf("wait for PINGRESP: %v", err)
			return
		}
		if p[0]>>4 == wire.TypePingresp {
			return
		}
		if m, is := c.take(p); is {
			c.t.Errorf("there is one message more: %v", m)
		}
	}
}

// until takes messages until a packet of another type comes.
func (c *client) until(kind byte, each func(message)) {
	c.t.Helper()
	for {
		p, err := c.read()
		check(c.t, err)
		if p[0]>>4 == kind {
			return
		}
		if m, is := c.take(p); is {
			each(m)
		}
	}
}

// silent tells that nothing has come: what is asked for now is answered first.
func (c *client) silent() {
	c.t.Helper()
	c.send([]byte{wire.TypePingreq << 4, 0})
	c.want(wire.TypePingresp)
}
