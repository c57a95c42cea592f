package embedded

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// wantGone waits until no more than left connections of a username remain. By then the Will
// of the others is published, unless it is delayed; a session may be deleted before.
func wantGone(t *testing.T, b *Broker, username string, left int) {
	t.Helper()
	eventually(t, "the connection has ended", func() bool { return len(b.engine.Addresses(username)) == left })
}

func TestWill(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.PublishClientSend, "ok/#", true))
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "ok/#", "no/#", "end", "$SYS/forged")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	for _, version := range versions {
		for topic, want := range map[string][]string{"ok/will": {"ok/will"}, "no/will": {}, "$SYS/forged": {}} {
			t.Run(fmt.Sprintf("%d %s", version, topic), func(t *testing.T) {
				d := join(t, b, version, as("alice", "pw"), withWill(topic, "bye"))
				d.Conn.Close()
				wantGone(t, b, "alice", 0)
				if diff := cmp.Diff(want, watcher.received(publisher, "end")); diff != "" {
					t.Errorf("delivered (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestWillIsDroppedByDisconnect(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "will", "end")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	for _, c := range []struct {
		version, code byte
		want          []string
	}{{3, 0, []string{}}, {4, 0, []string{}}, {5, 0, []string{}}, {5, 4, []string{"will"}}} {
		d := join(t, b, c.version, as(adminName, adminPassword), withWill("will", "bye"), withID("leaver"))
		d.Send(packet.Packet{Type: packet.Disconnect, Reason: c.code})
		d.WantEnd()
		wantGone(t, b, adminName, 2) // except the watcher and the publisher
		if diff := cmp.Diff(c.want, watcher.received(publisher, "end")); diff != "" {
			t.Errorf("version %d, code %d (-want +got):\n%s", c.version, c.code, diff)
		}
	}
}

func TestWillKeepsItsProperties(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "will")
	join(t, b, 5, as(adminName, adminPassword), withWill("will", ""), func(pk *packet.Packet) {
		pk.Connect.Will.QoS, pk.Connect.Will.Retain = 1, true
		pk.Connect.Will.Properties.ContentType = "text/plain"
	}).Conn.Close()
	got := watcher.Want(packet.Publish)
	if got.Properties.ContentType != "text/plain" || len(got.Payload) != 0 || got.QoS != 1 {
		t.Errorf("got content type %q, payload %q, QoS %d",
			got.Properties.ContentType, got.Payload, got.QoS)
	}
}

func TestWillDelay(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "will", "end")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	delayed := mqtttest.WillDelay
	leave := func(options ...connectOption) {
		options = append(options, as(adminName, adminPassword), withID("d"), withWill("will", "bye"))
		d := join(t, b, 5, options...)
		d.Conn.Close()
		wantGone(t, b, adminName, 2) // except the watcher and the publisher
	}
	steps := []struct {
		name string
		do   func()
		want []string
	}{
		{"the session waits", func() { leave(persistent, delayed(3000)) }, []string{}},
		{"the client reconnects", func() { leave(persistent, delayed(3000)) }, []string{}},
		{"the session starts over", func() {
			d := join(t, b, 5, as(adminName, adminPassword), withID("d"))
			d.Conn.Close()
			d.wantForgotten(b)
		}, []string{"will"}},
		{"the session does not outlive the connection", func() { leave(delayed(3000)) }, []string{"will"}},
	}
	for _, s := range steps {
		s.do()
		if diff := cmp.Diff(s.want, watcher.received(publisher, "end")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
	leave(persistent, delayed(1))
	if got := watcher.Want(packet.Publish).Topic; got != "will" {
		t.Errorf("got %q after the delay", got)
	}
}
