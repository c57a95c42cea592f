package remote

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// TestRetainedDeleter deletes many messages at a time, and nothing else.
func TestRetainedDeleter(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	d := b.RetainedDeleter()
	defer d.Close()
	const all = 40
	for i := range all {
		publish(t, b, fmt.Sprint("plant/", i), "x")
	}
	publish(t, b, "plant", "x", "plant/1/a", "x")
	outcomes := make([]error, all+1)
	var calls sync.WaitGroup
	for i := range outcomes { // one more than there are
		calls.Go(func() { outcomes[i] = d.DeleteRetained(t.Context(), fmt.Sprint("plant/", i)) })
	}
	calls.Wait()
	for i, err := range outcomes[:all] {
		if err != nil {
			t.Errorf("plant/%d: %v", i, err)
		}
	}
	wantKind(t, outcomes[all], broker.NotFound)
	if total, topics := retainedTopics(t, b, "#", 0, -1); total != 2 {
		t.Errorf("left: %q", topics)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := d.DeleteRetained(ended, "plant"); err == nil {
		t.Error("a deletion without time succeeded")
	}
	if err := d.DeleteRetained(t.Context(), "plant"); err != nil {
		t.Errorf("after a deletion without time: %v", err)
	}
}

// TestRetainedDeleterUsesOneConnection opens another one only after that was lost.
func TestRetainedDeleterUsesOneConnection(t *testing.T) {
	t.Parallel()
	server := scripted{answers: rich, refuse: []string{"secret"}, retains: []*packets.PublishPacket{message("a", true)}}
	b := connected(t, server.serve(t))
	if _, err := b.GetRetained(t.Context(), "a"); err != nil { // which also checks once that there can be two connections
		t.Fatal(err)
	}
	before := server.connected.Load()
	d := b.RetainedDeleter()
	wantConnections := func(want int64) {
		t.Helper()
		if got := server.connected.Load() - before; got != want {
			t.Errorf("%d connections were opened, want %d", got, want)
		}
	}
	if err := d.DeleteRetained(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	wantKind(t, d.DeleteRetained(t.Context(), "a"), broker.NotFound)
	wantKind(t, d.DeleteRetained(t.Context(), "secret"), broker.Denied)
	wantConnections(1)
	d.(*retainedDeleter).reader.conn.conn.Close()
	wantKind(t, d.DeleteRetained(t.Context(), "b"), broker.NotFound)
	wantConnections(2)
	d.Close()
	if n := len(b.shortConns); n != 0 {
		t.Errorf("%d short connections are open after Close", n)
	}
	d.Close()
}
