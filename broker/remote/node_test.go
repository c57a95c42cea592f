package remote

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
)

// TestDialNode manages the broker of another node of the cluster over the connections that the cluster
// opens. Why one cannot be opened is the error; how the broker was reached before does not matter.
func TestDialNode(t *testing.T) {
	t.Parallel()
	s := &scripted{answers: func(topic, _ string) string {
		if topic == control.HATopic {
			return `{"responses":[{"command":"getCluster","correlationData":"CORRELATION","data":{"cluster":{"clustername":"plant"}}}]}`
		}
		return ""
	}}
	address := strings.TrimPrefix(s.serve(t).URL, "mqtt://")
	var left atomic.Bool
	d := quick()
	d.DialNode = func(ctx context.Context, membership string) (net.Conn, error) {
		if membership != "uuid/2.7" {
			t.Errorf("dials %q", membership)
		}
		if left.Load() {
			return nil, &broker.Error{Kind: broker.Unavailable, Msg: "node 2 has left the cluster"}
		}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	target := broker.Target{ID: "node", URL: "mqtts://203.0.113.1", Username: "someone", Password: "of before", Membership: "uuid/2.7"}
	b := open(t, d, target)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.username != "" || b.password != "" {
		t.Error("credentials were sent")
	}
	left.Store(true)
	target.ID = "later"
	b = open(t, d, target)
	if e := wantKind(t, b.Ready(t.Context()), broker.Unavailable); e.Msg != "node 2 has left the cluster" {
		t.Errorf("got %q", e.Msg)
	}
	_, err := quick().Dial(target)
	wantKind(t, err, broker.Invalid)

	closes := &scripted{connack: 3}
	address = strings.TrimPrefix(closes.serve(t).URL, "mqtt://")
	left.Store(false)
	b = open(t, d, target)
	if e := wantKind(t, b.Ready(t.Context()), broker.Unavailable); !strings.Contains(e.Msg, "not available") {
		t.Errorf("got %q", e.Msg)
	}
}
