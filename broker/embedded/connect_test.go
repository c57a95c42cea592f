package embedded

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"

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
	emptyPassword := func(pk *packets.Packet) {
		as("alice", "")(pk)
		pk.Connect.PasswordFlag = true
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
			if got := d.sendConnect(c.options...).ReasonCode; got != want {
				t.Errorf("CONNACK code %d, want %d", got, want)
			}
			if !c.allowed {
				d.wantEnd()
			}
		})
	}
}

func TestAnonymousRefusedByDefault(t *testing.T) {
	t.Parallel()
	b := start(t)
	for version, want := range map[byte]byte{3: 5, 4: 5, 5: 135} {
		if got := dial(t, b, version).sendConnect().ReasonCode; got != want {
			t.Errorf("version %d: CONNACK code %d, want %d", version, got, want)
		}
	}
}

func TestConnackOfMalformedConnect(t *testing.T) {
	t.Parallel()
	b := start(t)
	noID := func(pk *packets.Packet) { pk.Connect.ClientIdentifier, pk.Connect.Clean = "", false }
	if got := dial(t, b, 4).sendConnect(noID, as(adminName, adminPassword)).ReasonCode; got != 2 {
		t.Errorf("no client id and no clean session: code %d, want 2", got)
	}
	unknown := dial(t, b, 4)
	unknown.raw(0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'T', 9, 2, 0, 0, 0, 1, 'x')
	if got := unknown.want(packets.Connack).ReasonCode; got != packets.Err3UnsupportedProtocolVersion.Code {
		t.Errorf("version 9: code %d", got)
	}
	badName := dial(t, b, 4)
	badName.raw(0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'X', 4, 2, 0, 0, 0, 1, 'x')
	badName.wantEnd()
	badWill := dial(t, b, 5)
	badWill.raw(connectBytes(t, 5, as(adminName, adminPassword), withWill("a/#", "x"))...)
	if got := badWill.want(packets.Connack).ReasonCode; got < 0x80 {
		t.Errorf("a Will with wildcards: code %d", got)
	}
	badWill.wantEnd()
}

func TestMosquittoBridgeMayConnect(t *testing.T) {
	t.Parallel()
	b := start(t)
	bytes := connectBytes(t, 4, as(adminName, adminPassword))
	bytes[8] |= 0x80
	d := dial(t, b, 4)
	d.raw(bytes...)
	if got := d.want(packets.Connack).ReasonCode; got != 0 {
		t.Errorf("CONNACK code %d", got)
	}
}

func TestConnackReturnsMaximumPacketSize(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.MaxPacketSize = 5000 })
	d := dial(t, b, 5)
	ack := d.sendConnect(as(adminName, adminPassword))
	if got := ack.Properties.MaximumPacketSize; got != 5000 {
		t.Errorf("maximum packet size %d", got)
	}
	d.send(d.message("a", string(make([]byte, 5000)), 0, false))
	if got := d.want(packets.Disconnect).ReasonCode; got != packets.ErrPacketTooLarge.Code {
		t.Errorf("DISCONNECT code %d", got)
	}
	d.wantEnd()
}

func TestClientIDBelongsToItsUsername(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	allow(t, b, "mallory", everything()...)
	alice := join(t, b, 5, as("alice", "pw"), withID("device"), persistent)
	alice.subscribe(1, "secret")
	refused := map[byte]byte{4: 2, 5: 133}
	for version, want := range refused {
		if got := dial(t, b, version).sendConnect(as("mallory", "pw"), withID("device")).ReasonCode; got != want {
			t.Errorf("version %d, while the owner is connected: code %d, want %d", version, got, want)
		}
	}
	if got := alice.publish("x", "", 1).ReasonCode; got != 16 {
		t.Errorf("the owner's connection did not survive: code %d", got)
	}
	alice.conn.Close()
	for version, want := range refused {
		if got := dial(t, b, version).sendConnect(as("mallory", "pw"), withID("device"), persistent).ReasonCode; got != want {
			t.Errorf("version %d, while the owner is away: code %d, want %d", version, got, want)
		}
	}
	back := dial(t, b, 5)
	if ack := back.sendConnect(as("alice", "pw"), withID("device"), persistent); ack.ReasonCode != 0 || !ack.SessionPresent {
		t.Errorf("the owner reconnects: code %d, session present %t", ack.ReasonCode, ack.SessionPresent)
	}
}

func TestClientIDIsFreeAfterItsSession(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice")
	join(t, b, 4, as(adminName, adminPassword), withID("device")).conn.Close()
	eventually(t, "another username can use the client id", func() bool {
		return dial(t, b, 4).sendConnect(as("alice", "pw"), withID("device")).ReasonCode == 0
	})
}

func TestTakeOverByTheSameUsername(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 4, as(adminName, adminPassword))
	watcher.subscribe(0, "will")
	publisher := join(t, b, 4, as(adminName, adminPassword))
	for _, version := range []byte{4, 5} {
		old := join(t, b, version, as(adminName, adminPassword), withID("device"), withWill("will", "gone"))
		dialed := dial(t, b, version)
		if ack := dialed.sendConnect(as(adminName, adminPassword), withID("device")); ack.ReasonCode != 0 || ack.SessionPresent {
			t.Errorf("version %d: code %d, session present %t", version, ack.ReasonCode, ack.SessionPresent)
		}
		if version == 5 {
			if got := old.want(packets.Disconnect).ReasonCode; got != packets.ErrSessionTakenOver.Code {
				t.Errorf("DISCONNECT code %d", got)
			}
		}
		old.wantEnd()
		if got := watcher.want(packets.Publish); string(got.Payload) != "gone" {
			t.Errorf("will %q", got.Payload)
		}
		dialed.subscribe(0, "still/served")
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
	for _, session := range []connectOption{persistent, func(*packets.Packet) {}} {
		const connections = 30
		var beaten atomic.Int64
		for range connections {
			d := dial(t, b, 5)
			d.raw(connectBytes(t, 5, as(adminName, adminPassword), withID("device"), session)...)
			go func() {
				io.Copy(io.Discard, d.conn) //nolint:errcheck // until the broker closes it
				beaten.Add(1)
			}()
		}
		eventually(t, "one of them has won", func() bool { return beaten.Load() == connections-1 })
		last := join(t, b, 5, as(adminName, adminPassword), withID("device"), session)
		last.subscribe(1, "x")
		publisher.publish("x", "payload", 0)
		if got := last.want(packets.Publish); string(got.Payload) != "payload" {
			t.Errorf("got %q", got.Payload)
		}
		last.conn.Close()
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
	if got := dial(t, b, 5).sendConnect(as("alice", "pw")).ReasonCode; got != 135 {
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
	dial(t, b, 4).wantEnd()
	first.conn.Close()
	eventually(t, "there is room again", func() bool { return connections(b) < 2 })
	join(t, b, 4, as(adminName, adminPassword))
}

// connectBytes returns an encoded CONNECT.
func connectBytes(t *testing.T, version byte, options ...connectOption) []byte {
	t.Helper()
	d := &device{t: t, version: version}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	pk.Connect.ProtocolName = []byte("MQTT")
	pk.Connect.Clean = true
	pk.Connect.ClientIdentifier = "raw"
	for _, o := range options {
		o(&pk)
	}
	return d.encode(pk)
}
