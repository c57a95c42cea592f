package embedded

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"

	"signalbox/broker/embedded/listen"
)

// TestConnack covers Mosquitto's responses to CONNECT.
func TestConnack(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.AllowAnonymous = true })
	allow(t, b, "alice")
	allow(t, b, "off")
	if err := b.DisableClient(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: "nopw"}); err != nil {
		t.Fatal(err)
	}
	for version, refused := range map[byte]byte{3: 5, 4: 5, 5: 135} {
		testConnack(t, b, version, refused)
	}
}

// testConnack connects in every way in one version. The client id that is bound is the
// version's own, or the versions would take over each other's sessions.
func testConnack(t *testing.T, b *Broker, version, refused byte) {
	t.Helper()
	bound, password := fmt.Sprint("bound", version), broker.Secret("pw")
	if err := b.CreateClient(t.Context(), broker.ClientSpec{Username: bound, Password: &password, ClientID: &bound}); err != nil {
		t.Fatal(err)
	}
	emptyPassword := func(pk *packet.Packet) {
		as("alice", "")(pk)
		pk.Connect.HasPassword = true
	}
	for name, c := range map[string]struct {
		options []connectOption
		allowed bool
	}{
		"right password":               {[]connectOption{as("alice", "pw")}, true},
		"wrong password":               {[]connectOption{as("alice", "wrong")}, false},
		"no password":                  {[]connectOption{as("alice", "")}, false},
		"empty password":               {[]connectOption{emptyPassword}, false},
		"unknown user":                 {[]connectOption{as("nobody", "pw")}, false},
		"unknown user, no password":    {[]connectOption{as("nobody", "")}, false},
		"client without a password":    {[]connectOption{as("nopw", "pw")}, false},
		"the same, none given":         {[]connectOption{as("nopw", "")}, false},
		"bound client id, right":       {[]connectOption{as(bound, "pw"), withID(bound)}, true},
		"bound client id, wrong":       {[]connectOption{as(bound, "pw")}, false},
		"disabled":                     {[]connectOption{as("off", "pw")}, false},
		"disabled, wrong password":     {[]connectOption{as("off", "wrong")}, false},
		"anonymous":                    {nil, true},
		"empty username":               {[]connectOption{as("", "")}, true},
		"will on a topic out of reach": {[]connectOption{as("alice", "pw"), withWill("no/right", "x")}, true},
		"will on $CONTROL":             {[]connectOption{as(adminName, adminPassword), withWill("$CONTROL/x/v1", "x")}, false},
	} {
		t.Run(fmt.Sprint(name, ", version ", version), func(t *testing.T) {
			t.Parallel()
			want := refused
			if c.allowed {
				want = 0
			}
			d := dial(t, b, version)
			if got := d.SendConnect(c.options...).Reason; got != want {
				t.Errorf("CONNACK code %d, want %d", got, want)
			}
			if !c.allowed {
				d.WantEnd()
			}
		})
	}
}

func TestAnonymousRefusedByDefault(t *testing.T) {
	t.Parallel()
	b := start(t)
	for version, want := range map[byte]byte{3: 5, 4: 5, 5: 135} {
		if got := dial(t, b, version).SendConnect().Reason; got != want {
			t.Errorf("version %d: CONNACK code %d, want %d", version, got, want)
		}
	}
}

func TestConnackOfMalformedConnect(t *testing.T) {
	t.Parallel()
	b := start(t)
	noID := func(pk *packet.Packet) { pk.Connect.ClientID, pk.Connect.CleanStart = "", false }
	if got := dial(t, b, 4).SendConnect(noID, as(adminName, adminPassword)).Reason; got != 2 {
		t.Errorf("no client id and no clean session: code %d, want 2", got)
	}
	unknown := dial(t, b, 4)
	unknown.SendBytes(0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'T', 9, 2, 0, 0, 0, 1, 'x')
	if got := unknown.Want(packet.Connack).Reason; got != packet.UnsupportedVersion3 {
		t.Errorf("version 9: code %d", got)
	}
	badName := dial(t, b, 4)
	badName.SendBytes(0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'X', 4, 2, 0, 0, 0, 1, 'x')
	badName.WantEnd()
	badWill := dial(t, b, 5)
	badWill.SendBytes(connectBytes(5, as(adminName, adminPassword), withWill("a/#", "x"))...)
	if got := badWill.Want(packet.Connack).Reason; got < 0x80 {
		t.Errorf("a Will with wildcards: code %d", got)
	}
	badWill.WantEnd()
}

func TestMosquittoBridgeMayConnect(t *testing.T) {
	t.Parallel()
	b := start(t)
	bytes := connectBytes(4, as(adminName, adminPassword))
	bytes[8] |= 0x80
	d := dial(t, b, 4)
	d.SendBytes(bytes...)
	if got := d.Want(packet.Connack).Reason; got != 0 {
		t.Errorf("CONNACK code %d", got)
	}
}

func TestConnackReturnsMaximumPacketSize(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.MaxPacketSize = 5000 })
	d := dial(t, b, 5)
	ack := d.SendConnect(as(adminName, adminPassword))
	if got := ack.Properties.MaximumPacketSize; got != 5000 {
		t.Errorf("maximum packet size %d", got)
	}
	d.Send(d.Message("a", string(make([]byte, 5000)), 0, false))
	if got := d.Want(packet.Disconnect).Reason; got != packet.PacketTooLarge {
		t.Errorf("DISCONNECT code %d", got)
	}
	d.WantEnd()
}

func TestClientIDBelongsToItsUsername(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	allow(t, b, "mallory", everything()...)
	alice := join(t, b, 5, as("alice", "pw"), withID("device"), persistent)
	alice.Subscribe(1, "secret")
	refused := map[byte]byte{4: 2, 5: 133}
	for version, want := range refused {
		if got := dial(t, b, version).SendConnect(as("mallory", "pw"), withID("device")).Reason; got != want {
			t.Errorf("version %d, while the owner is connected: code %d, want %d", version, got, want)
		}
	}
	if got := alice.Publish("x", "", 1); got != 16 {
		t.Errorf("the owner's connection did not survive: code %d", got)
	}
	alice.Conn.Close()
	for version, want := range refused {
		if got := dial(t, b, version).SendConnect(as("mallory", "pw"), withID("device"), persistent).Reason; got != want {
			t.Errorf("version %d, while the owner is away: code %d, want %d", version, got, want)
		}
	}
	back := dial(t, b, 5)
	if ack := back.SendConnect(as("alice", "pw"), withID("device"), persistent); ack.Reason != 0 || !ack.Present {
		t.Errorf("the owner reconnects: code %d, session present %t", ack.Reason, ack.Present)
	}
}

func TestClientIDIsFreeAfterItsSession(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice")
	join(t, b, 4, as(adminName, adminPassword), withID("device")).Conn.Close()
	eventually(t, "another username can use the client id", func() bool {
		return dial(t, b, 4).SendConnect(as("alice", "pw"), withID("device")).Reason == 0
	})
}

func TestTakeOverByTheSameUsername(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 4, as(adminName, adminPassword))
	watcher.Subscribe(0, "will")
	publisher := join(t, b, 4, as(adminName, adminPassword))
	for _, version := range []byte{4, 5} {
		old := join(t, b, version, as(adminName, adminPassword), withID("device"), withWill("will", "gone"))
		dialed := dial(t, b, version)
		if ack := dialed.SendConnect(as(adminName, adminPassword), withID("device")); ack.Reason != 0 || ack.Present {
			t.Errorf("version %d: code %d, session present %t", version, ack.Reason, ack.Present)
		}
		if version == 5 {
			if got := old.Want(packet.Disconnect).Reason; got != packet.SessionTakenOver {
				t.Errorf("DISCONNECT code %d", got)
			}
		}
		old.WantEnd()
		if got := watcher.Want(packet.Publish); string(got.Payload) != "gone" {
			t.Errorf("will %q", got.Payload)
		}
		dialed.Subscribe(0, "still/served")
		if got := dialed.received(publisher, "still/served"); len(got) != 0 {
			t.Errorf("received %q", got)
		}
	}
}

// TestManyTakeOvers uses one client id on many connections at once; the last one is served.
func TestManyTakeOvers(t *testing.T) {
	t.Parallel()
	b := start(t)
	publisher := join(t, b, 5, as(adminName, adminPassword))
	for _, session := range []connectOption{persistent, func(*packet.Packet) {}} {
		const connections = 30
		var beaten atomic.Int64
		for range connections {
			d := dial(t, b, 5)
			d.SendBytes(connectBytes(5, as(adminName, adminPassword), withID("device"), session)...)
			go func() {
				io.Copy(io.Discard, d.Conn) //nolint:errcheck // until the broker closes it
				beaten.Add(1)
			}()
		}
		eventually(t, "one of them has won", func() bool { return beaten.Load() == connections-1 })
		last := join(t, b, 5, as(adminName, adminPassword), withID("device"), session)
		last.Subscribe(1, "x")
		publisher.Publish("x", "payload", 0)
		if got := last.Want(packet.Publish); string(got.Payload) != "payload" {
			t.Errorf("got %q", got.Payload)
		}
		last.Conn.Close()
	}
	eventually(t, "no other client is connected", func() bool { return b.engine.Counts().Connected == 1 })
}

func TestAdminOnlyListener(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) {
		c.Listen = ""
		c.Listeners = []listen.Config{{Protocol: "mqtt", Address: "127.0.0.1:0", AdminOnly: true}}
	})
	allow(t, b, "alice", everything()...)
	if got := dial(t, b, 5).SendConnect(as("alice", "pw")).Reason; got != 135 {
		t.Errorf("CONNACK code %d, want 135", got)
	}
	join(t, b, 5, as(adminName, adminPassword))
}

func TestRecordsShowConnections(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice")
	join(t, b, 4, as("alice", "pw"))
	join(t, b, 5, as("alice", "pw"))
	got, err := b.GetClient(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	want := []broker.Connection{{Address: "127.0.0.1"}, {Address: "127.0.0.1"}}
	if d := cmp.Diff(want, got.Connections); d != "" {
		t.Errorf("connections (-want +got):\n%s", d)
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.MaxConnections = 2 })
	first := join(t, b, 4, as(adminName, adminPassword))
	dial(t, b, 4)
	eventually(t, "two connections are open", func() bool { return connections(b) == 2 })
	dial(t, b, 4).WantEnd()
	first.Conn.Close()
	eventually(t, "there is room again", func() bool { return connections(b) < 2 })
	join(t, b, 4, as(adminName, adminPassword))
}

// connectBytes returns an encoded CONNECT.
func connectBytes(version byte, options ...connectOption) []byte {
	pk := mqtttest.NewConnect("raw", options...)
	return pk.Append(nil, version)
}
