package embedded

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
)

var versions = []byte{3, 4, 5}

// refusal returns the code with which a version refuses a SUBSCRIBE.
func refusal(version byte) byte {
	if version == 5 {
		return 135
	}
	return 128
}

func TestPublishClientSend(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice",
		acl(broker.PublishClientSend, "a/#", true), acl(broker.PublishClientSend, "a/heard", true))
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(2, "a/heard", "b/#", "end", "$SYS/x")
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		for _, c := range []struct {
			topic string
			qos   byte
			code  byte // of version 5
		}{
			{"a", 1, 16}, {"a/1", 1, 16}, {"a/heard", 1, 0}, {"a/1", 2, 0}, {"a/heard", 2, 0},
			{"b/1", 1, 135}, {"b/1", 2, 135}, {"b/1", 0, 0}, {"$SYS/x", 0, 0},
			{"$SYS/x", 1, 135}, {"$SYS/x", 2, 135}, {"$sys/x", 1, 135}, {"$SHARE", 1, 135},
			{"$CONTROL/x/v1", 1, 135}, {"$CONTROL/dynamic-security/v1", 1, 135}, {"$CONTROL", 1, 135},
		} {
			want := c.code
			if version < 5 {
				want = 0
			}
			if got := d.Publish(c.topic, "x", c.qos); got != want {
				t.Errorf("version %d, QoS %d to %s: code %d, want %d", version, c.qos, c.topic, got, want)
			}
		}
	}
	want := slices.Repeat([]string{"a/heard"}, 2*len(versions))
	if d := cmp.Diff(want, watcher.received(join(t, b, 5, as(adminName, adminPassword)), "end")); d != "" {
		t.Errorf("delivered (-want +got):\n%s", d)
	}
}

// TestTopicsBesideTheReserved publishes to topics that begin like the reserved ones, and to
// those.
func TestTopicsBesideTheReserved(t *testing.T) {
	t.Parallel()
	b := start(t)
	var acls []broker.ACL
	for _, topic := range []string{"$SYSTEM/a", "$shared/x", "$CONTROLLER/x", "$SYS", "$SYS/x", "$share", "$share/g/x"} {
		acls = append(acls, acl(broker.PublishClientSend, topic, true))
	}
	allow(t, b, "alice", append(acls, acl(broker.PublishClientReceive, "$SYSTEM/#", true), acl(broker.SubscribePattern, "$SYSTEM/#", true))...)
	d := join(t, b, 5, as("alice", "pw"))
	d.Subscribe(1, "$SYSTEM/#")
	for topic, want := range map[string]byte{
		"$shared/x": 16, "$CONTROLLER/x": 16, "$SYS": 135, "$SYS/x": 135, "$share": 135, "$share/g/x": 135,
	} {
		if got := d.Publish(topic, "x", 1); got != want {
			t.Errorf("to %s: code %d, want %d", topic, got, want)
		}
	}
	d.Send(d.Message("$SYSTEM/a", "x", 1, false))
	if got := d.Want(packet.Publish).Topic; got != "$SYSTEM/a" {
		t.Errorf("got a message of %s", got)
	}
	if err := b.Publish(t.Context(), broker.PublishSpec{Topic: "$SYSTEM/a", Payload: []byte("y")}); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"$SYSTEM/a", "$shared/x"} {
		v, err := b.CheckAccess(t.Context(), broker.AccessCheck{Username: "alice", Action: broker.ActionPublish, Topic: topic})
		if err != nil || !v.Allowed {
			t.Errorf("the access check of %s: %+v, %v", topic, v, err)
		}
	}
}

// TestRefusedQoS2 sends more messages than the broker's in-flight window.
func TestRefusedQoS2(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.PublishClientSend, "yes", true))
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		for range 30 {
			if ack := d.StartPublish("no", "", 2); ack.Reason == 0 { // as if it were accepted
				d.Send(packet.Packet{
					Type: packet.Pubrel, ID: ack.ID,
				})
				d.Want(packet.Pubcomp)
			}
		}
		if got := d.StartPublish("yes", "", 2).Reason; got != 0 {
			t.Errorf("version %d: PUBREC code %d", version, got)
		}
	}
}

// TestSysTopicsAreTheBrokers: whatever its rights, a client is treated as one without any.
func TestSysTopicsAreTheBrokers(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, version := range versions {
		d := join(t, b, version, as(adminName, adminPassword))
		d.Subscribe(1, "$SYS/mine", "end")
		want := byte(0)
		if version >= 5 {
			want = packet.NotAuthorized
		}
		for qos := range byte(3) {
			if got := d.StartPublish("$SYS/mine", "x", qos).Reason; qos > 0 && got != want {
				t.Errorf("version %d, QoS %d: code %d, want %d", version, qos, got, want)
			}
		}
		if got := d.received(join(t, b, 5, as(adminName, adminPassword)), "end"); len(got) != 0 {
			t.Errorf("version %d: received %q", version, got)
		}
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		acls    []broker.ACL
		granted []string
		refused []string
	}{
		"subscribePattern a/+/c/#": {
			[]broker.ACL{acl(broker.SubscribePattern, "a/+/c/#", true)},
			[]string{"a/b/c", "a/+/c", "a/b/c/d", "a/+/c/#", "a/b/c/#"},
			[]string{"a/#", "a/+/+/#", "#", "+/b/c", "a/b/+", "$share/g/a/b/c", "$share/g/a/x", "A/b/c"},
		},
		"subscribePattern #": {
			[]broker.ACL{acl(broker.SubscribePattern, "#", true)},
			[]string{"#", "+", "x/y"},
			[]string{
				"$SYS/#", "$SYS/broker/uptime", "$CONTROL/dynamic-security/v1/response",
				"$other/x", "$share/g/x",
			},
		},
		"literal and pattern": {
			[]broker.ACL{
				acl(broker.SubscribeLiteral, "a/+", true), acl(broker.SubscribeLiteral, "a/x", false),
				acl(broker.SubscribeLiteral, "b/1", true), acl(broker.SubscribePattern, "a/#", true),
			},
			[]string{"a/+", "a/y", "b/1"},
			[]string{"a/x", "b/+", "$share/g/b/1"},
		},
		"delivery denied": {
			[]broker.ACL{
				acl(broker.SubscribePattern, "a/#", true), acl(broker.PublishClientReceive, "a/#", false),
			},
			[]string{"a/b", "a/+", "a"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			allow(t, b, "alice", c.acls...)
			for _, version := range versions {
				d := join(t, b, version, as("alice", "pw"))
				for _, filter := range c.granted {
					if got := d.Subscribe(1, filter)[0]; got != 1 {
						t.Errorf("version %d: %s: code %d, want 1", version, filter, got)
					}
				}
				for _, filter := range c.refused {
					if got := d.Subscribe(1, filter)[0]; got != refusal(version) {
						t.Errorf("version %d: %s: code %d, want %d", version, filter, got, refusal(version))
					}
				}
			}
		})
	}
}

func TestSubscribeSeveralFilters(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribePattern, "a/#", true))
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		want := []byte{1, refusal(version), 1}
		if diff := cmp.Diff(want, d.Subscribe(1, "a/1", "b/1", "a/2")); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
	d := join(t, b, 5, as("alice", "pw"))
	d.Send(packet.Packet{
		Type: packet.Subscribe, ID: 9,
		Filters: []packet.Filter{{Filter: "a/#/b", QoS: 1}},
	})
	if got := d.Want(packet.Disconnect).Reason; got != packet.MalformedPacket {
		t.Errorf("an invalid filter: DISCONNECT code %d", got)
	}
}

func TestSharedSubscription(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "worker", acl(broker.SubscribePattern, "$share/g/jobs/#", true))
	first := join(t, b, 5, as("worker", "pw"))
	second := join(t, b, 4, as("worker", "pw"))
	for _, d := range []*device{first, second} {
		if got := d.Subscribe(1, "$share/g/jobs/#")[0]; got != 1 {
			t.Fatalf("SUBACK code %d", got)
		}
	}
	publisher := join(t, b, 5, as(adminName, adminPassword))
	if got := publisher.Publish("jobs/1", "", 1); got != 0 {
		t.Errorf("PUBACK code %d: no subscriber was found", got)
	}
	idle := join(t, b, 5, as(adminName, adminPassword))
	if got := idle.Unsubscribe("$share/g/jobs/#")[0]; got != 17 {
		t.Errorf("UNSUBACK code %d for a subscription of others", got)
	}
}

func TestSharedSubscriptionPrefersTheConnected(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "worker", acl(broker.SubscribePattern, "$share/g/#", true), acl(broker.SubscribePattern, "#", true))
	here := join(t, b, 5, as("worker", "pw"))
	away := join(t, b, 5, as("worker", "pw"), persistent)
	for _, d := range []*device{here, away} {
		d.Subscribe(0, "$share/g/#")
	}
	away.Conn.Close()
	away.wantForgotten(b)
	here.Subscribe(0, "end")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	const jobs = 30
	for range jobs {
		publisher.Publish("job", "", 0)
	}
	publisher.Publish("$SYS/secret", "", 0)
	want := slices.Repeat([]string{"job"}, jobs)
	if diff := cmp.Diff(want, here.received(publisher, "end")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPublishClientReceive(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribePattern, "#", true),
		acl(broker.PublishClientReceive, "x/no", false), acl(broker.PublishClientReceive, "y/no", false))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		d.Subscribe(1, "x/#", "end", "y/no")
		for _, topic := range []string{"x/yes", "x/no", "y/no", "x/deep/er"} {
			publisher.Publish(topic, "x", 0)
		}
		if diff := cmp.Diff([]string{"x/yes", "x/deep/er"}, d.received(publisher, "end")); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

func TestRetained(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribePattern, "#", true), acl(broker.PublishClientReceive, "x/no", false),
		acl(broker.PublishClientSend, "x/mine", true))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	alice := join(t, b, 4, as("alice", "pw"))
	for _, m := range []struct {
		by    *device
		topic string
	}{{publisher, "x/yes"}, {publisher, "x/no"}, {alice, "x/mine"}, {alice, "x/denied"}} {
		m.by.Send(m.by.Message(m.topic, "kept", 1, true))
		m.by.Want(packet.Puback)
		m.by.Settled() // delivered to connected clients, after the PUBACK
	}
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		d.Subscribe(1, "x/no", "end")
		d.Subscribe(1, "x/#")
		got := append(d.Settled(), d.received(publisher, "end")...)
		slices.Sort(got)
		if diff := cmp.Diff([]string{"x/mine", "x/yes"}, got); diff != "" {
			t.Errorf("version %d (-want +got):\n%s", version, diff)
		}
	}
}

func TestRetainHandling(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := join(t, b, 5, as(adminName, adminPassword))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	publisher.Send(publisher.Message("kept", "x", 1, true))
	publisher.Want(packet.Puback)
	publisher.Settled() // delivered to connected clients, after the PUBACK
	d.Subscribe(0, "end")
	for i, c := range []struct {
		handling byte
		want     int
	}{{1, 1}, {1, 0}, {0, 1}, {2, 0}} {
		d.PacketID++
		d.Send(packet.Packet{
			Type: packet.Subscribe, ID: d.PacketID,
			Filters: []packet.Filter{{Filter: "kept", RetainHandling: c.handling}},
		})
		d.Want(packet.Suback)
		if got := append(d.Settled(), d.received(publisher, "end")...); len(got) != c.want {
			t.Errorf("step %d: %d retained messages, want %d", i, len(got), c.want)
		}
	}
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", acl(broker.SubscribePattern, "#", true),
		acl(broker.UnsubscribeLiteral, "u/keep", false), acl(broker.UnsubscribePattern, "u/deep/#", false))
	publisher := join(t, b, 5, as(adminName, adminPassword))
	other := join(t, b, 5, as(adminName, adminPassword))
	other.Subscribe(0, "u/never")
	for _, version := range versions {
		d := join(t, b, version, as("alice", "pw"))
		d.Subscribe(1, "u/keep", "u/free", "u/deep/1", "end")
		codes := d.Unsubscribe("u/keep", "u/free", "u/deep/1", "u/never")
		want := []byte{135, 0, 135, 17}
		if version < 5 {
			want = nil
		}
		if diff := cmp.Diff(want, codes); diff != "" {
			t.Errorf("version %d: codes (-want +got):\n%s", version, diff)
		}
		for _, topic := range []string{"u/deep/1", "u/free", "u/keep"} {
			publisher.Publish(topic, "x", 0)
		}
		if diff := cmp.Diff([]string{"u/deep/1", "u/keep"}, d.received(publisher, "end")); diff != "" {
			t.Errorf("version %d: delivered (-want +got):\n%s", version, diff)
		}
	}
}

// TestPacketIDsOfBothDirections: a SUBSCRIBE and a PUBLISH with the same packet identifier
// do not interfere.
func TestPacketIDsOfBothDirections(t *testing.T) {
	t.Parallel()
	b := start(t)
	d := join(t, b, 5, as(adminName, adminPassword))
	d.Subscribe(1, "a")
	d.Send(d.Message("a", "x", 0, false))
	d.Want(packet.Publish)
	publisher := join(t, b, 5, as(adminName, adminPassword))
	publisher.Publish("a", "unacknowledged", 1)
	d.PacketID = d.Want(packet.Publish).ID - 1
	if got := d.Subscribe(1, "b")[0]; got != 1 {
		t.Errorf("SUBACK code %d", got)
	}
	d.PacketID--
	if got := d.Unsubscribe("b")[0]; got != 0 {
		t.Errorf("UNSUBACK code %d", got)
	}
}
