package apitest_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// withAdminPassword sets the password of the broker's administrator.
func withAdminPassword(c *appliance.Config) { c.Broker.AdminPassword = mqttPassword }

func detail(api *apitest.API, id string) (d broker.ConnectedClientDetail) {
	api.Root.Get(api.At("/client-inspect/detail?clientid=" + url.QueryEscape(id))).Want(200).Decode(&d)
	return d
}

// wantDetail waits until part of the inspected detail has this value; inspection may
// lag slightly behind what a client has seen.
func wantDetail[T any](t *testing.T, api *apitest.API, id string, want T, part func(broker.ConnectedClientDetail) T) {
	t.Helper()
	deadline := time.Now().Add(suite.HangLimit)
	for {
		got := part(detail(api, id))
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// Compares every field of operations 37 and 38 with clients of all versions on
// listeners of all kinds.
func TestInspectEveryListener(t *testing.T) {
	t.Parallel()
	p := issueCertificates(t)
	api := everyListener(t, p)
	local := func(i int) *broker.ClientListener {
		return &broker.ClientListener{Port: portOf(t, api.Listeners[i]), BindAddress: "127.0.0.1"}
	}
	p13 := p.config(t, func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 })
	p12 := p.config(t, func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
	})
	for _, c := range []struct {
		id       string
		listener int
		path     string
		tls      *tls.Config
		version  byte
		changes  []change
		want     broker.ConnectedClientDetail
	}{
		{id: "tcp-31", version: 3, changes: []change{keepAlive(60)},
			want: broker.ConnectedClientDetail{Username: "<anonymous>", Address: "127.0.0.1", Protocol: "MQTT", ProtocolVersion: "v3.1",
				Keepalive: 60, CleanSession: true, Listener: local(0)}},
		{id: "tcp-311", version: 4, changes: []change{asAdmin, persistent},
			want: broker.ConnectedClientDetail{Username: mqttAdmin, Address: "127.0.0.1", Protocol: "MQTT", ProtocolVersion: "v3.1.1", Listener: local(0)}},
		{id: "tls-5", listener: 1, tls: p13, version: 5, changes: []change{asAdmin, keepAlive(65535)},
			want: broker.ConnectedClientDetail{Username: mqttAdmin, Address: "127.0.0.1", Protocol: "MQTT", ProtocolVersion: "v5",
				Keepalive: 65535, CleanSession: true, Listener: local(1),
				TLS: &broker.ClientTLS{ClientCertificate: string(p.client.Cert), Version: "TLSv1.3"}}},
		{id: "tls-311", listener: 2, tls: p12, version: 4, changes: []change{asAdmin},
			want: broker.ConnectedClientDetail{Username: mqttAdmin, Address: "127.0.0.1", Protocol: "MQTT", ProtocolVersion: "v3.1.1",
				CleanSession: true, Listener: local(2),
				TLS: &broker.ClientTLS{Version: "TLSv1.2", Ciphers: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}}},
		{id: "ws-5", listener: 3, path: "/mqtt", version: 5, changes: []change{persistent},
			want: broker.ConnectedClientDetail{Username: "<anonymous>", Address: "127.0.0.1", Protocol: "MQTT-WS", ProtocolVersion: "v5",
				Keepalive: 65535, Listener: local(3)}}, // the broker's value, because the client sent none
		{id: "wss-311", listener: 4, path: "/mqtt", tls: p13, version: 4,
			want: broker.ConnectedClientDetail{Username: "<anonymous>", Address: "127.0.0.1", Protocol: "MQTT-WS", ProtocolVersion: "v3.1.1",
				CleanSession: true, Listener: local(4), TLS: &broker.ClientTLS{Version: "TLSv1.3"}}},
		{id: "unix-5", listener: 5, version: 5, changes: []change{asAdmin, keepAlive(9)},
			want: broker.ConnectedClientDetail{Username: mqttAdmin, Address: "unix", Protocol: "MQTT", ProtocolVersion: "v5", Keepalive: 9,
				CleanSession: true, Listener: &broker.ClientListener{BindAddress: strings.TrimPrefix(api.Listeners[5], "unix://")}}},
	} {
		t.Run(c.id, func(t *testing.T) {
			d := connectTo(t, api.Listeners[c.listener]+c.path, c.tls, c.version)
			before := time.Now().UnixMilli()
			d.Connect(append(c.changes, withID(c.id))...)
			got := detail(api, c.id)
			if after := time.Now().UnixMilli(); got.LastConnect < before || got.LastConnect > after {
				t.Errorf("lastConnect %d, want from %d to %d", got.LastConnect, before, after)
			}
			if got.TLS != nil && c.want.TLS.Ciphers == "" { // one of the suites that both support
				c.want.TLS.Ciphers = cipherOf(d.Conn)
			}
			c.want.Dropped = &broker.ClientDrops{}
			c.want.ClientID, c.want.Connected, c.want.LastConnect, c.want.Subscriptions = c.id, true, got.LastConnect, []string{}
			c.want.Queues = broker.ClientQueueDetail{BytesMax: 64 << 20, MessagesMax: 100_000}
			c.want.Inflight = broker.ClientInflight{MessagesInMax: 20, MessagesOutMax: 20, MessagesMax: 20}
			if c.version < 5 {
				c.want.Inflight.MessagesInMax = 65535
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("detail (-want +got):\n%s", diff)
			}
			wantListed(t, api, c.want)
		})
	}
}

// cipherOf returns the cipher suite of a connection.
func cipherOf(conn net.Conn) string {
	if o, ok := conn.(*mqtttest.WebSocket); ok {
		conn = o.Conn
	}
	return tls.CipherSuiteName(conn.(*tls.Conn).ConnectionState().CipherSuite)
}

// wantListed compares the entry of the list with the detail.
func wantListed(t *testing.T, api *apitest.API, d broker.ConnectedClientDetail) {
	t.Helper()
	want := broker.ConnectedClient{Username: d.Username, ClientID: d.ClientID, Address: d.Address, Protocol: d.Protocol,
		ProtocolVersion: d.ProtocolVersion, Connected: d.Connected, LastConnect: d.LastConnect, LastDisconnect: d.LastDisconnect,
		Queues: broker.ClientQueues{BytesOut: d.Queues.BytesOut, BytesMax: d.Queues.BytesMax, MessagesOut: d.Queues.MessagesOut,
			MessagesMax: d.Queues.MessagesMax}, Listener: d.Listener, NumSubscriptions: &d.NumSubscriptions, NumDropped: &d.NumDropped,
		Inflight: &broker.ClientInflightMessages{MessagesIn: d.Inflight.MessagesIn, MessagesOut: d.Inflight.MessagesOut}}
	var list []broker.ConnectedClient
	api.Root.Get(api.At("/client-inspect")).Want(200).Decode(&list)
	for _, got := range list {
		if got.ClientID != d.ClientID {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list entry (-want +got):\n%s", diff)
		}
		return
	}
	t.Errorf("%s is not in the list", d.ClientID)
}

// TestInspectTLSIsNested checks the JSON itself.
func TestInspectTLSIsNested(t *testing.T) {
	t.Parallel()
	p := issueCertificates(t)
	api := everyListener(t, p)
	connectTo(t, api.Listeners[1], p.config(t, func(*tls.Config) {}), 5).Connect(withID("c"), asAdmin)
	var record map[string]any
	api.Root.Get(api.At("/client-inspect/detail?clientid=c")).Want(200).Decode(&record)
	nested, ok := record["tls"].(map[string]any)
	if !ok {
		t.Fatalf("tls: got %v, want an object", record["tls"])
	}
	block, _ := pem.Decode([]byte(nested["clientCertificate"].(string)))
	sent, _ := pem.Decode(p.client.Cert)
	if block == nil || !bytes.Equal(block.Bytes, sent.Bytes) {
		t.Errorf("clientCertificate: got %v", nested["clientCertificate"])
	}
	for _, name := range []string{"clientCertificate", "version", "ciphers"} {
		if _, ok := record[name]; ok || nested[name] == "" {
			t.Errorf("%s must stand in tls alone: %v", name, record)
		}
	}
	join(t, api, 5, "plain", asAdmin)
	var plain map[string]any
	api.Root.Get(api.At("/client-inspect/detail?clientid=plain")).Want(200).Decode(&plain)
	if _, ok := plain["tls"]; ok {
		t.Error("a connection in the clear shows tls")
	}
}

// TestInspectWill shows a Will with all properties of MQTT 5, as long as it may still
// be published.
func TestInspectWill(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	will := func(pk *packet.Packet) {
		pk.Connect.HasWill, pk.Connect.Will.Retain, pk.Connect.Will.QoS = true, true, 2
		pk.Connect.Will.Topic, pk.Connect.Will.Payload = "pump/7/state", []byte{0, 0xff, 'x'}
		pk.Connect.Will.Properties = packet.Properties{PayloadFormat: new(byte), MessageExpiry: 90, ContentType: "application/octet-stream",
			ResponseTopic: "answers/7", CorrelationData: []byte{1, 2, 0xfe}, WillDelay: 3600,
			User: []packet.UserProperty{{Name: "site", Value: "north"}, {Name: "site", Value: "hall 3"}}}
	}
	want := &broker.ClientWill{Topic: "pump/7/state", QoS: 2, Retain: true, Payload: base64.StdEncoding.EncodeToString([]byte{0, 0xff, 'x'}),
		DelayInterval: 3600, Properties: []broker.WillProperty{
			{Identifier: "payload-format-indicator", Value: "0"}, {Identifier: "content-type", Value: "application/octet-stream"},
			{Identifier: "response-topic", Value: "answers/7"}, {Identifier: "correlation-data", Value: "AQL+"},
			{Identifier: "user-property", Name: "site", Value: "north"}, {Identifier: "user-property", Name: "site", Value: "hall 3"},
			{Identifier: "message-expiry-interval", Value: "90"}}}
	shown := func(d broker.ConnectedClientDetail) *broker.ClientWill { return d.Will }

	d := join(t, api, 5, "c", asAdmin, persistent, will)
	wantDetail(t, api, "c", want, shown)
	d.Drop()
	wantDetail(t, api, "c", false, connected)
	wantDetail(t, api, "c", want, shown) // it waits for its delay
	d = join(t, api, 5, "c", asAdmin, persistent)
	wantDetail(t, api, "c", nil, shown)
	d.Drop()
	d = join(t, api, 5, "c", asAdmin, persistent, will)
	d.Disconnect() // which deletes the Will
	wantDetail(t, api, "c", false, connected)
	wantDetail(t, api, "c", nil, shown)

	join(t, api, 4, "old", asAdmin, func(pk *packet.Packet) {
		pk.Connect.HasWill, pk.Connect.Will.Topic, pk.Connect.Will.Payload = true, "gone", []byte("bye")
	})
	wantDetail(t, api, "old", &broker.ClientWill{Topic: "gone", Payload: "Ynll", Properties: []broker.WillProperty{}}, shown)
}

func connected(d broker.ConnectedClientDetail) bool { return d.Connected }

// TestInspectTimes follows one session over its connections.
func TestInspectTimes(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "c", asAdmin, persistent, keepAlive(30))
	first := detail(api, "c")
	if first.LastDisconnect != nil || !first.Connected {
		t.Errorf("on its first connection: %+v", first)
	}
	before := time.Now().UnixMilli()
	d.Disconnect()
	wantDetail(t, api, "c", false, connected)
	away := detail(api, "c")
	if away.LastDisconnect == nil || *away.LastDisconnect < before || *away.LastDisconnect > time.Now().UnixMilli() {
		t.Errorf("lastDisconnect %v, want from %d on", away.LastDisconnect, before)
	}
	if away.LastConnect != first.LastConnect || away.Keepalive != 30 || away.CleanSession || away.Username != mqttAdmin ||
		away.Address != "127.0.0.1" || away.Protocol != "MQTT" || away.ProtocolVersion != "v5" || away.Listener != nil {
		t.Errorf("while away: %+v", away)
	}
	wantListed(t, api, away)

	join(t, api, 5, "c", asAdmin, persistent)
	back := detail(api, "c")
	if back.LastConnect < *away.LastDisconnect || back.LastDisconnect == nil || *back.LastDisconnect != *away.LastDisconnect || !back.Connected {
		t.Errorf("back again: %+v, was away: %+v", back, away)
	}

	brief := join(t, api, 5, "brief", asAdmin)
	brief.Disconnect()
	wantDetailGone(t, api, "brief")
	api.Root.Get(api.At("/client-inspect/detail?clientid=brief")).WantError(404, "NOT_FOUND")
	api.Root.Get(api.At("/client-inspect/detail?clientid=")).WantError(400, "INVALID_REQUEST")
	api.Root.Get(api.At("/client-inspect/detail")).WantError(400, "INVALID_REQUEST")
}

// TestInspectKeepAlive: the value in force is the one that the broker sent to the
// client, if it could.
func TestInspectKeepAlive(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) { c.Broker.MaxKeepAlive = 30 * time.Second })
	for id, c := range map[string]struct {
		version byte
		asked   uint16
		want    int
	}{"none": {5, 0, 30}, "long": {5, 60, 30}, "short": {5, 10, 10}, "old": {4, 60, 60}} {
		join(t, api, c.version, id, asAdmin, keepAlive(c.asked))
		if got := detail(api, id).Keepalive; got != c.want {
			t.Errorf("%s: keepalive %d, want %d", id, got, c.want)
		}
	}
}

// TestInspectWebSocketThatIsAway still shows how its client connected, as long as the
// broker runs; all else is the same after a restart.
func TestInspectWebSocketThatIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := everyListener(t, issueCertificates(t), apitest.In(dir))
	d := connectTo(t, api.Listeners[3]+"/mqtt", nil, 5)
	d.Connect(withID("c"), asAdmin, persistent)
	d.Disconnect()
	protocol := func(d broker.ConnectedClientDetail) string { return d.Protocol }
	wantDetail(t, api, "c", false, connected)
	wantDetail(t, api, "c", "MQTT-WS", protocol)
	want := detail(api, "c")
	want.Protocol = "MQTT"
	api.Stop()
	again := apitest.New(t, withAdminPassword, apitest.In(dir))
	wantDetail(t, again, "c", want, func(d broker.ConnectedClientDetail) broker.ConnectedClientDetail { return d })
}

// TestInspectCleanSession: it reports whether the session ends with its connection,
// which is not the same as Clean Start in MQTT 5.
func TestInspectCleanSession(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	for _, c := range []struct {
		name    string
		version byte
		clean   bool
		expiry  uint32
		want    bool
	}{
		{"v311 clean", 4, true, 0, true}, {"v311 kept", 4, false, 0, false},
		{"v5 clean, ends", 5, true, 0, true}, {"v5 clean, kept", 5, true, 60, false},
		{"v5 not clean, ends", 5, false, 0, true}, {"v5 not clean, kept", 5, false, 60, false},
	} {
		join(t, api, c.version, c.name, asAdmin, func(pk *packet.Packet) {
			pk.Connect.CleanStart, pk.Properties.SessionExpiry = c.clean, c.expiry
		})
		if got := detail(api, c.name).CleanSession; got != c.want {
			t.Errorf("%s: cleanSession %t, want %t", c.name, got, c.want)
		}
	}
}

func TestInspectSubscriptions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribe", "allow": true}}).Want(204)
	d := join(t, api, 5, "c", asAdmin, persistent)
	d.SubscribeTo(filter("b/+", 1), filter("a/#", 0), filter("$share/g/c", 2), filter("a/#", 2))
	shown := func(d broker.ConnectedClientDetail) []string {
		if int(d.NumSubscriptions) != len(d.Subscriptions) {
			t.Errorf("numSubscriptions %d of %q", d.NumSubscriptions, d.Subscriptions)
		}
		return d.Subscriptions
	}
	wantDetail(t, api, "c", []string{"$share/g/c", "a/#", "b/+"}, shown)
	d.Unsubscribe("a/#")
	wantDetail(t, api, "c", []string{"$share/g/c", "b/+"}, shown)
	d.Disconnect()
	wantDetail(t, api, "c", false, connected)
	wantDetail(t, api, "c", []string{"$share/g/c", "b/+"}, shown)
}
