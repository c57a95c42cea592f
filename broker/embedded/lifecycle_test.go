package embedded

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// sideBySide is how many tests run at once: cluster tests mostly wait.
const sideBySide = 4

func TestMain(m *testing.M) {
	if text := os.Getenv(undoCrash); text != "" {
		undoProcess(text)
	}
	if err := flag.Set("test.parallel", fmt.Sprint(sideBySide)); err != nil { // the command line may override it
		panic(err)
	}
	suite.Main(m)
}

func TestFirstStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := testConfig()
	c.AdminPassword, c.AdminUsername = "", "root"
	password := ""
	c.KeepPassword = func(generated broker.Secret) error {
		password = string(generated)
		return nil
	}
	first := open(t, c, dir)
	if len(password) != 20 {
		t.Errorf("a password of %d characters", len(password))
	}
	join(t, first, 5, as("root", password))
	closeNow(t, first)

	c.AdminPassword, c.AdminUsername = "another", "another"
	c.KeepPassword = func(broker.Secret) error { t.Error("the second start generated a password"); return nil }
	second := open(t, c, dir)
	join(t, second, 5, as("root", password))
	if got := dial(t, second, 5).SendConnect(as("another", "another")).Reason; got != 135 {
		t.Errorf("the configured admin counts on the second start: code %d", got)
	}
}

func open(t *testing.T, c Config, dir string) *Broker {
	t.Helper()
	b, err := New(t.Context(), c, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.WithoutCancel(t.Context())) })
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func closeNow(t *testing.T, b *Broker) {
	t.Helper()
	if err := b.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", brokertest.FreePort(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	c := testConfig()
	c.Listen = brokertest.FreePort(t, "127.0.0.1")
	c.Listeners = []listen.Config{{Protocol: "ws", Address: busy.Addr().String()}}
	b, err := New(t.Context(), c, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(t, b)
	err = b.Start(t.Context())
	if err == nil {
		t.Fatal("Start took a port that is in use")
	}
	for _, part := range []string{busy.Addr().String(), "broker.listeners[0].address", "in use"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not tell %q", err, part)
		}
	}
	if b.Status().Connected || broker.KindOf(b.Ready(t.Context())) != broker.Unavailable {
		t.Error("a broker that did not start is ready")
	}
	if conn, err := net.Dial("tcp", b.Addrs()[0]); err == nil {
		conn.Close()
		t.Error("the other listener stayed open")
	}
	busy.Close()
	if err := b.Start(t.Context()); err != nil {
		t.Errorf("Start once the port is free: %v", err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := start(t)
	silent := dial(t, b, 4)
	eventually(t, "the connection is accepted", func() bool { return connections(b) == 1 })
	five := join(t, b, 5, as(adminName, adminPassword))
	four := join(t, b, 4, as(adminName, adminPassword))
	if err := b.Healthy(t.Context()); err != nil {
		t.Errorf("Healthy: %v", err)
	}
	for range 2 {
		closeNow(t, b)
	}
	if got := five.Want(packet.Disconnect).Reason; got != packet.ServerShuttingDown {
		t.Errorf("DISCONNECT code %d", got)
	}
	five.WantEnd()
	four.WantEnd()
	silent.WantEnd()
	if b.Status().Connected || b.Healthy(t.Context()) == nil {
		t.Error("a closed broker reports that it serves")
	}
	if err := b.Start(t.Context()); err == nil {
		t.Error("a closed broker starts again")
	}
}

func TestCloseBeforeStart(t *testing.T) {
	t.Parallel()
	b, err := New(t.Context(), testConfig(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	closeNow(t, b)
	closeNow(t, b)
}

// notReading joins a client that does not read, and returns a function that sends it 1 MiB.
func notReading(t *testing.T, b *Broker) (d *device, flood func()) {
	t.Helper()
	d = join(t, b, 5, as(adminName, adminPassword), withID("stalled"))
	d.Subscribe(0, "flood")
	if err := d.Conn.(*net.TCPConn).SetReadBuffer(1 << 12); err != nil {
		t.Fatal(err)
	}
	publisher := join(t, b, 5, as(adminName, adminPassword))
	payload := strings.Repeat("x", 1<<20)
	return d, func() { publisher.Publish("flood", payload, 0) }
}

// stalled joins a client that does not read, and publishes to it until its buffers are full
// and the broker's write blocks.
func stalled(t *testing.T, b *Broker) *device {
	t.Helper()
	d, flood := notReading(t, b)
	sent := int64(-1)
	eventually(t, "the broker's writes to the client stall", func() bool {
		flood()
		before := sent
		sent = b.engine.Counts().PublishesSent
		i, _, err := b.engine.Client("stalled")
		return err == nil && sent == before && i.Queue.Messages > 0
	})
	return d
}

func TestStalledReader(t *testing.T) {
	t.Parallel()
	t.Run("is closed after the write timeout", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(c *Config) { c.WriteTimeout = 300 * time.Millisecond })
		_, flood := notReading(t, b)
		eventually(t, "the connection is forgotten", func() bool {
			flood()
			i, _, err := b.engine.Client("stalled")
			return err != nil || !i.Connected
		})
	})
	t.Run("does not hold up a cut", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(c *Config) { c.WriteTimeout = time.Hour })
		d := stalled(t, b)
		if err := b.DeleteClient(t.Context(), adminName); err != nil {
			t.Fatal(err)
		}
		d.wantForgotten(b)
	})
	t.Run("does not hold up a take-over", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(c *Config) { c.WriteTimeout = time.Hour })
		stalled(t, b)
		join(t, b, 5, as(adminName, adminPassword), withID("stalled"))
	})
	t.Run("does not hold up Close", func(t *testing.T) {
		t.Parallel()
		b := start(t, func(c *Config) { c.WriteTimeout = time.Hour })
		stalled(t, b)
		closeNow(t, b)
	})
}

func clientIDs(b *Broker) []string {
	var ids []string
	_, all := b.engine.Clients(0, -1)
	for i := range all {
		ids = append(ids, i.ClientID)
	}
	return ids
}

// TestOnePacketCrash sends packets that make the server decode out of bounds if unchecked,
// and others that it must refuse.
func TestOnePacketCrash(t *testing.T) {
	t.Parallel()
	b := start(t)
	watcher := join(t, b, 5, as(adminName, adminPassword))
	watcher.Subscribe(1, "will")
	for i, session := range []connectOption{func(*packet.Packet) {}, persistent} {
		d := join(t, b, 5, as(adminName, adminPassword), withID("crash"), withWill("will", "gone"), session)
		d.Subscribe(1, "crash/topic")
		d.SendBytes(0x82, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00) // an empty filter and no option byte
		d.wantCrash()
		d.wantForgotten(b)
		if got := watcher.Want(packet.Publish); string(got.Payload) != "gone" {
			t.Errorf("will %q", got.Payload)
		}
		if kept := slices.Contains(clientIDs(b), "crash"); kept != (i == 1) {
			t.Errorf("session kept: %t", kept)
		}
	}
	back := dial(t, b, 5)
	if ack := back.SendConnect(as(adminName, adminPassword), withID("crash"), persistent); !ack.Present {
		t.Error("the session of the crashed connection is lost")
	}
}

// wantCrash waits for the end, however it happens.
func (d *device) wantCrash() {
	for {
		if _, err := d.Next(); err != nil {
			return
		}
	}
}

func TestForeignProtocols(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) { c.ConnectTimeout = 200 * time.Millisecond })
	for name, bytes := range map[string][]byte{
		"no CONNECT":            {0xc0, 0x00},
		"a CONNECT of 256 MiB":  {0x10, 0xff, 0xff, 0xff, 0x7f},
		"an endless length":     {0x10, 0xff, 0xff, 0xff, 0xff, 0xff},
		"HTTP":                  []byte("GET / HTTP/1.1\r\n\r\n"),
		"nothing":               {},
		"half a CONNECT":        {0x10, 0x20, 0x00},
		"a type and no length":  {0x10},
		"half a length":         {0x10, 0x80},
		"a CONNECT of no bytes": {0x10, 0x00},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dial(t, b, 4)
			d.SendBytes(bytes...)
			d.wantCrash()
			eventually(t, "the connection is forgotten", func() bool { return connections(b) == 0 })
		})
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, seconds := range []uint16{0, 43691, 65535} {
		d := join(t, b, 4, as(adminName, adminPassword), mqtttest.KeepAlive(seconds))
		d.Publish("x", "", 1)
	}
	short := join(t, b, 4, as(adminName, adminPassword), mqtttest.KeepAlive(1))
	short.WantEnd()
}

func TestExpiredSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	brief := func(pk *packet.Packet) {
		persistent(pk)
		pk.Properties.SessionExpiry = 1
	}
	d := join(t, b, 5, as(adminName, adminPassword), withID("device"), brief)
	d.Subscribe(1, "secret")
	d.Conn.Close()
	var alice *device
	eventually(t, "the client id is free", func() bool {
		alice = dial(t, b, 5)
		return alice.SendConnect(as("alice", "pw"), withID("device")).Reason == 0
	})
	alice.Subscribe(0, "end")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	publisher.Publish("secret", "x", 1)
	if got := alice.received(publisher, "end"); len(got) != 0 {
		t.Errorf("inherited %q", got)
	}
	if got := b.engine.Counts().Expired; got != 1 {
		t.Errorf("%d sessions expired", got)
	}
}

// TestReconnectsUnderLoad looks for races between deliveries, retained messages, cuts, and
// clients that connect and disconnect.
func TestReconnectsUnderLoad(t *testing.T) {
	t.Parallel()
	b := start(t)
	allow(t, b, "alice", everything()...)
	stop := make(chan struct{})
	done := make(chan struct{})
	publisher := join(t, b, 5, as(adminName, adminPassword))
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				pk := publisher.Message(fmt.Sprintf("x/%d", i%10), "payload", 1, true)
				publisher.Send(pk)
				publisher.Want(packet.Puback)
			}
		}
	}()
	for i := range 60 {
		d := dial(t, b, 5)
		for _, packet := range [][]byte{
			connectBytes(5, as("alice", "pw"), withID(fmt.Sprint("d", i%3)), persistent),
			{0x82, 0x08, 0x00, 0x01, 0x00, 0x00, 0x02, 'x', '/', 0x00},
			{0x82, 0x07, 0x00, 0x02, 0x00, 0x00, 0x01, '#', 0x01},
		} {
			if _, err := d.Conn.Write(packet); err != nil {
				break // a change of the client has disconnected it meanwhile
			}
		}
		if i%10 == 0 {
			password := broker.Secret("pw")
			if err := b.ModifyClient(t.Context(), broker.ClientSpec{Username: "alice", Password: &password}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	<-done
}
