package embedded

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/listen"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	wire "signalbox/broker/mqtt/packet"
)

// TestSilentTLSAndWebSocketHaveNoGoroutine leaves clients with TLS and WebSocket silent until no
// goroutine waits for them. They are served as before: messages, keep alive, take-over and both
// ways of ending a connection.
func TestSilentTLSAndWebSocketHaveNoGoroutine(t *testing.T) { // not parallel: it counts goroutines
	files := newCertificates(t)
	b := start(t, func(c *Config) {
		c.Listen = ""
		c.Listeners = []listen.Config{
			{Protocol: "mqtts", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key},
			{Protocol: "ws", Address: "127.0.0.1:0"},
			{Protocol: "wss", Address: "127.0.0.1:0", CertFile: files.cert, KeyFile: files.key},
		}
	})
	var groups []*silentGroup
	for i, listener := range []string{"mqtts://", "ws://", "wss://"} {
		g := &silentGroup{t: t, b: b, name: listener}
		g.open = func(id string, options ...mqtttest.Option) *device {
			d := &device{mqtttest.Dial(t, listener+b.Addrs()[i], &tls.Config{RootCAs: files.pool}, packet.V5)}
			if got := d.SendConnect(append(options, as(adminName, adminPassword), withID(listener+id))...).Reason; got != 0 {
				t.Fatalf("%s: CONNACK code %d", listener, got)
			}
			return d
		}
		g.join()
		groups = append(groups, g)
	}
	for size := range 3 { // parked again and again
		awaitParked(t)
		for _, g := range groups {
			g.exchange(fmt.Sprint(size, strings.Repeat("x", 40_000*size))) // of several records and frames
		}
	}
	for _, g := range groups {
		g.quiet.WantDisconnect(wire.ReasonKeepAliveTimeout)
		if silent := time.Since(g.joined); silent < 4500*time.Millisecond {
			t.Errorf("%s: keep alive timeout after %s, want 4.5s", g.name, silent)
		}
	}
	awaitParked(t)
	for _, g := range groups {
		g.leave()
	}
	eventually(t, "nothing is left open", func() bool { return connections(b) == 0 })
}

// silentGroup is some clients of one listener.
type silentGroup struct {
	t                     *testing.T
	b                     *Broker
	name                  string
	open                  func(id string, options ...mqtttest.Option) *device
	source, quiet         *device
	gone, replaced, ended *device
	joined                time.Time // when quiet was heard last
}

func (g *silentGroup) readers() []*device { return []*device{g.gone, g.replaced, g.ended} }

func (g *silentGroup) join() {
	g.source, g.gone, g.replaced, g.ended = g.open("source"), g.open("gone"), g.open("replaced"), g.open("ended")
	for _, d := range g.readers() {
		d.Subscribe(1, g.name)
	}
	g.joined = time.Now()
	g.quiet = g.open("quiet", mqtttest.KeepAlive(3))
}

// exchange sends a message to all readers.
func (g *silentGroup) exchange(payload string) {
	if got := g.source.Publish(g.name, payload, 1); got != 0 {
		g.t.Errorf("%s: PUBACK code %d", g.name, got)
	}
	for _, d := range g.readers() {
		d.Acknowledge(packet.Puback, d.WantMessage(g.name, payload).ID)
	}
	g.ended.Ping()
}

// leave ends the connections in all ways.
func (g *silentGroup) leave() {
	g.gone.Drop()
	g.gone.wantForgotten(g.b)
	heir := g.open("replaced")
	g.replaced.WantDisconnect(wire.ReasonSessionTakenOver)
	if err := g.b.DisconnectClient(g.t.Context(), g.name+"ended"); err != nil {
		g.t.Fatal(err)
	}
	g.ended.WantDisconnect(wire.ReasonAdministrativeAction)
	if _, err := g.ended.Next(); err == nil || strings.Contains(err.Error(), "unexpected EOF") { // an end without close message
		g.t.Errorf("%s: the end is %v", g.name, err)
	}
	for _, d := range []*device{g.source, heir} {
		d.Disconnect()
		d.wantForgotten(g.b)
	}
}

// awaitParked waits until no goroutine waits for a client.
func awaitParked(t *testing.T) {
	t.Helper()
	eventually(t, "all connections are parked", func() bool {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(all.String(), "embedded/listen.(*Conn).Wait")
	})
}
