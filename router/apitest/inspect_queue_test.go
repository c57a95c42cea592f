package apitest_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// smallQueues bounds the queue of a client, and its messages in flight.
func smallQueues(messages, window int) apitest.Option {
	return func(c *appliance.Config) {
		c.Broker.MaxQueuedMessages, c.Broker.MaxInflightMessages, c.Broker.MaxQueuedBytes = messages, window, 4096
	}
}

// queueState is the queue of a client, its messages in flight, and those that were dropped.
type queueState struct {
	Queues   broker.ClientQueueDetail
	Inflight broker.ClientInflight
	Dropped  int64
}

func queueStateOf(d broker.ConnectedClientDetail) queueState {
	return queueState{d.Queues, d.Inflight, d.NumDropped}
}

// payload makes every message on topic "t" count 100 bytes.
var payload = strings.Repeat("x", 99)

// TestInspectQueue fills the queue of an offline client, and empties it through a
// window of two messages that are acknowledged one by one.
func TestInspectQueue(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, smallQueues(10, 3))
	away := join(t, api, 5, "c", asAdmin, persistent)
	away.SubscribeTo(filter("t", 2))
	away.Disconnect()
	wantDetail(t, api, "c", false, connected)

	publisher := join(t, api, 5, "p", asAdmin)
	for _, qos := range []byte{1, 2, 0, 1, 2, 1} { // QoS 0 is not queued for an offline client
		publisher.Publish("t", payload, qos)
	}
	want := queueState{
		Queues:   broker.ClientQueueDetail{BytesOut: 500, BytesMax: 4096, MessagesOut: 5, MessagesMax: 10, MessagesOutQoS12: 5},
		Inflight: broker.ClientInflight{MessagesInMax: 3, MessagesOutMax: 3, MessagesMax: 3},
	}
	wantDetail(t, api, "c", want, queueStateOf)
	wantListed(t, api, detail(api, "c"))

	here := join(t, api, 5, "c", asAdmin, persistent, func(pk *packet.Packet) { pk.Properties.ReceiveMaximum = 2 })
	first := here.WantMessage("t", payload)
	here.WantMessage("t", payload)
	want.Queues.BytesOut, want.Queues.MessagesOut, want.Queues.MessagesOutQoS12 = 300, 3, 3
	want.Inflight.BytesOut, want.Inflight.MessagesOut, want.Inflight.MessagesOutMax = 200, 2, 2
	wantDetail(t, api, "c", want, queueStateOf)
	wantListed(t, api, detail(api, "c"))

	here.Acknowledge(packet.Puback, first.ID)
	here.WantMessage("t", payload)
	want.Queues.BytesOut, want.Queues.MessagesOut, want.Queues.MessagesOutQoS12 = 200, 2, 2
	wantDetail(t, api, "c", want, queueStateOf)

	here.Drop() // a closed connection has nothing in flight
	want.Queues.BytesOut, want.Queues.MessagesOut, want.Queues.MessagesOutQoS12 = 400, 4, 4
	want.Inflight.BytesOut, want.Inflight.MessagesOut = 0, 0
	wantDetail(t, api, "c", false, connected)
	wantDetail(t, api, "c", want, queueStateOf)
}

// TestInspectInflightFromTheClient: a message of QoS 2 is in flight until its sender
// has released it.
func TestInspectInflightFromTheClient(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "c", asAdmin)
	for id := range uint16(3) {
		d.Send(packet.Packet{Type: packet.Publish, QoS: 2, Topic: "t", Payload: []byte("x"), ID: id + 1})
		d.Want(packet.Pubrec)
	}
	underWay := func(d broker.ConnectedClientDetail) int64 { return d.Inflight.MessagesIn }
	wantDetail(t, api, "c", 3, underWay)
	d.Release(2)
	wantDetail(t, api, "c", 2, underWay)
}

// TestInspectDropsByFullQueue drops the newest messages, of an offline client and of
// one that does not acknowledge.
func TestInspectDropsByFullQueue(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, smallQueues(5, 2))
	away := join(t, api, 4, "away", asAdmin, persistent)
	away.SubscribeTo(filter("t", 1))
	away.Disconnect()
	silent := join(t, api, 4, "silent", asAdmin)
	silent.SubscribeTo(filter("t", 1))
	wantDetail(t, api, "away", false, connected)

	publisher := join(t, api, 4, "p", asAdmin)
	for range 8 {
		publisher.Publish("t", payload, 1)
	}
	want := queueState{
		Queues:   broker.ClientQueueDetail{BytesOut: 500, BytesMax: 4096, MessagesOut: 5, MessagesMax: 5, MessagesOutQoS12: 5},
		Inflight: broker.ClientInflight{MessagesInMax: 65535, MessagesOutMax: 2, MessagesMax: 2},
		Dropped:  3,
	}
	wantDetail(t, api, "away", want, queueStateOf)
	want.Queues.BytesOut, want.Queues.MessagesOut, want.Queues.MessagesOutQoS12 = 300, 3, 3
	want.Inflight.BytesOut, want.Inflight.MessagesOut = 200, 2
	wantDetail(t, api, "silent", want, queueStateOf)

	wantListed(t, api, detail(api, "away"))
	wantListed(t, api, detail(api, "silent"))
	wantListed(t, api, detail(api, "p"))
	for query, want := range map[string][]string{
		"?dropped=true": {"away", "silent"}, "?dropped=true&state=connected": {"silent"}, "?dropped=true&queued=true&filterValue=AW": {"away"},
		"?dropped=true&offset=1": {"silent"}, "?dropped=false": {"away", "p", "silent"}, "?dropped=true&filterValue=p": nil,
	} {
		if ids, _ := listed(t, api, query); !slices.Equal(ids, want) {
			t.Errorf("%s: got %q, want %q", query, ids, want)
		}
	}
	api.Root.Get(api.At("/client-inspect?dropped=perhaps")).WantError(400, "INVALID_REQUEST")
}

// TestInspectDropsByBytes drops what exceeds the bound in bytes.
func TestInspectDropsByBytes(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, smallQueues(100, 10))
	away := join(t, api, 5, "c", asAdmin, persistent)
	away.SubscribeTo(filter("t", 1))
	away.Disconnect()
	wantDetail(t, api, "c", false, connected)
	publisher := join(t, api, 5, "p", asAdmin)
	for range 3 {
		publisher.Publish("t", strings.Repeat("x", 1999), 1)
	}
	want := queueState{
		Queues:   broker.ClientQueueDetail{BytesOut: 4000, BytesMax: 4096, MessagesOut: 2, MessagesMax: 100, MessagesOutQoS12: 2},
		Inflight: broker.ClientInflight{MessagesInMax: 10, MessagesOutMax: 10, MessagesMax: 10}, Dropped: 1,
	}
	wantDetail(t, api, "c", want, queueStateOf)
}

// TestInspectDropsByExpiry drops messages that have expired when the client connects. A
// retained message with the same expiry, published later, shows that they have.
func TestInspectDropsByExpiry(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	away := join(t, api, 5, "c", asAdmin, persistent)
	away.SubscribeTo(filter("t", 1))
	away.Disconnect()
	wantDetail(t, api, "c", false, connected)
	publisher := join(t, api, 5, "p", asAdmin)
	publisher.Publish("t", "brief", 1, expiring)
	publisher.Publish("t", "lasting", 1)
	publisher.Publish("clock", "x", 1, expiring, retained)
	waitFor(t, "the expiry", func() bool { return api.Root.Get(api.At("/messages/retained?topic=clock")).Status == 404 })
	if got := strings.TrimSpace(string(api.Root.Get(api.At("/messages/retained")).Want(200).Body)); got != "[]" {
		t.Errorf("an expired message is listed: %s", got)
	}

	here := join(t, api, 5, "c", asAdmin, persistent)
	here.WantMessage("t", "lasting")
	wantDetail(t, api, "c", broker.ClientDrops{Expired: 1}, dropped)
}

func dropped(d broker.ConnectedClientDetail) broker.ClientDrops { return *d.Dropped }

// TestInspectDropsByPacketSize drops what exceeds the client's maximum packet size
// [MQTT-3.1.2-25].
func TestInspectDropsByPacketSize(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "c", asAdmin, func(pk *packet.Packet) { pk.Properties.MaximumPacketSize = 100 })
	d.SubscribeTo(filter("t", 1))
	publisher := join(t, api, 5, "p", asAdmin)
	publisher.Publish("t", strings.Repeat("x", 200), 1)
	publisher.Publish("t", strings.Repeat("x", 200), 0)
	publisher.Publish("t", "small", 1)
	d.WantMessage("t", "small")
	wantDetail(t, api, "c", broker.ClientDrops{TooLarge: 2}, dropped)
}

// traffic is the traffic of a client's connections.
type traffic struct{ Published, Subscribed, BytesPublished, BytesSubscribed int64 }

func trafficOf(d broker.ConnectedClientDetail) traffic {
	return traffic{d.NumPublished, d.NumSubscribed, d.BytesPublished, d.BytesSubscribed}
}

// TestInspectTraffic counts payloads only, over all connections of a session.
func TestInspectTraffic(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "c", asAdmin, persistent)
	d.SubscribeTo(filter("to/c", 1))
	for qos := range byte(3) {
		d.Publish("from/c", strings.Repeat("x", 10*int(qos+1)), qos)
	}
	publisher := join(t, api, 5, "p", asAdmin)
	for qos := range byte(3) {
		publisher.Publish("to/c", "hello", qos)
		if pk := d.WantMessage("to/c", "hello"); pk.QoS > 0 {
			d.Acknowledge(packet.Puback, pk.ID)
		}
	}
	d.Ping()
	wantDetail(t, api, "c", traffic{3, 3, 60, 15}, trafficOf)
	wantDetail(t, api, "p", traffic{3, 0, 15, 0}, trafficOf)
	d.Disconnect()
	d = join(t, api, 5, "c", asAdmin, persistent)
	d.Publish("from/c", "more", 0)
	wantDetail(t, api, "c", traffic{4, 3, 64, 15}, trafficOf)
}
