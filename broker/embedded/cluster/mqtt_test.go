package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestDialMQTT opens connections for MQTT by the Membership of a node, with a bound of their own, and none
// to another Membership.
func TestDialMQTT(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2)
	n := f.nodes[1].node
	to, err := f.nodes[2].node.Membership()
	must(t, err)
	if to.NodeID() != 2 {
		t.Errorf("%s is of node %d", to, to.NodeID())
	}
	var conns []net.Conn
	for range maxMQTT {
		conn, address, err := n.DialMQTT(within(t, suite.HangLimit), to)
		must(t, err)
		defer conn.Close()
		if conns = append(conns, conn); address != member(2).hostPort() || <-in.came != 1 {
			t.Fatalf("at %s", address)
		}
	}
	conns[0].SetDeadline(time.Now().Add(suite.HangLimit))
	if _, err := conns[0].Write([]byte("mqtt")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conns[0], got); err != nil || string(got) != "mqtt" {
		t.Errorf("got %q, %v", got, err)
	}
	data, err := n.Dial(within(t, suite.HangLimit), 2)
	must(t, err)
	defer data.Close()
	<-in.came
	more, _, err := n.DialMQTT(within(t, suite.HangLimit), to)
	must(t, err)
	wantClosed(t, more)

	own, err := n.Membership()
	must(t, err)
	uuid, r, _ := to.read()
	for _, m := range []Membership{own, membershipOf("01234567-89ab-7def-8123-456789abcdef", r), membershipOf(uuid, memberRef{2, 9}), membershipOf(uuid, memberRef{9, 1}), "", "2.1", "/2.1"} {
		if _, _, err := n.DialMQTT(within(t, suite.HangLimit), m); !errors.Is(err, ErrUnknownNode) {
			t.Errorf("to %q: got %v", m, err)
		}
	}
	if len(in.came) > 0 {
		t.Error("one too many was handed over")
	}
}

// TestMQTTEndsWithMembership closes the connections of a removed node and accepts none of it, and none
// reaches a node without MQTT.
func TestMQTTEndsWithMembership(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2, 3)
	l, gone := f.leader(), f.follower()
	to, err := gone.node.Membership()
	must(t, err)
	from, err := l.node.Membership()
	must(t, err)
	out, _, err := l.node.DialMQTT(within(t, suite.HangLimit), to)
	must(t, err)
	back, _, err := gone.node.DialMQTT(within(t, suite.HangLimit), from)
	must(t, err)
	<-in.came
	<-in.came
	b := gone.node.membership.Load().credentials
	must(t, l.node.RemoveNode(within(t, suite.HangLimit), gone.id))
	for _, conn := range []net.Conn{out, back} {
		if err := wantClosed(t, conn); errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, as if this end had been closed by its user", err)
		}
	}
	f.atRest(gone)
	if m, err := gone.node.Membership(); !errors.Is(err, ErrNotClustered) {
		t.Errorf("at rest: %q, %v", m, err)
	}
	if _, _, err := gone.node.DialMQTT(within(t, suite.HangLimit), from); !errors.Is(err, ErrNotClustered) {
		t.Errorf("at rest: %v", err)
	}
	if _, _, err := l.node.DialMQTT(within(t, suite.HangLimit), to); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("to a node that was removed: %v", err)
	}
	_, r, _ := from.read()
	conn, err := dial(within(t, suite.HangLimit), b, r, member(l.id).hostPort(), protocolMQTT)
	must(t, err) // which ends before the other node has seen the certificate
	wantClosed(t, conn)
	if len(in.came) > 0 {
		t.Error("who was removed is handed over")
	}

	plain := newFleet(t).form(1, 2) // without MQTT
	to, err = plain.nodes[2].node.Membership()
	must(t, err)
	conn2, _, err := plain.nodes[1].node.DialMQTT(within(t, suite.HangLimit), to)
	must(t, err)
	wantClosed(t, conn2)
}

// wantClosed waits until the other end closes a connection.
func wantClosed(t *testing.T, conn net.Conn) error {
	t.Helper()
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(suite.HangLimit))
	_, err := conn.Read(make([]byte, 1))
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a connection is open (%v)", err)
	}
	return err
}

// TestDissolveOverMQTT dissolves a cluster as requested over a connection that ends with it. Neither that nor the end
// of the node waits for the user of the connection, which may be busy with a request for long.
func TestDissolveOverMQTT(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	leads, dissolved, release := make(chan *Node, 1), make(chan error, 1), make(chan struct{})
	dissolve := func(_ NodeID, conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
			defer cancel()
			dissolved <- (<-leads).Delete(ctx)
			<-release
		}
	}
	f.formWith(func(o *Options) {
		calm(o)
		o.MQTT = dissolve
	}, 1, 2)
	l := f.leader()
	leads <- l.node
	to, err := l.node.Membership()
	must(t, err)
	conn, _, err := f.follower().node.DialMQTT(within(t, suite.HangLimit), to)
	must(t, err)
	_, err = conn.Write([]byte("x"))
	must(t, err, <-dissolved)
	wantClosed(t, conn)
	closed := make(chan struct{})
	go func() {
		l.close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(suite.HangLimit):
		t.Error("the end of the node waits for the user of a connection")
	}
	close(release)
}

// TestDepartureEndsWithNode does not wait for the departure of a node that is closed.
func TestDepartureEndsWithNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	n := f.nodes[1].node
	f.nodes[1].close()
	if err := n.awaitDeparture(within(t, suite.HangLimit)); !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
