package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/mqtt/packet"
)

// TestTakeOvers makes many connections of one client id take over from each other, with and
// without Clean Start: the one that is connected at the end has a session that works, and is
// the only one.
func TestTakeOvers(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	var clients sync.WaitGroup
	for g := range uint64(6) {
		clients.Go(func() {
			dice := rand.New(rand.NewPCG(g, 1))
			for n := range 40 {
				b.fight(dice, fmt.Sprintf("%d-%d", g, n))
			}
		})
	}
	clients.Wait()
	h := keeps("rival")
	h.CleanStart = true
	c := b.Connect(h)
	c.Subscribe("own", 1)
	c.Publish(packet.Outgoing{Topic: "own", QoS: 1, PacketID: 9, Payload: []byte("last")})
	for {
		p, err := c.Read()
		check(t, err)
		if p[0]>>4 == packet.TypePublish && c.Parse(p).Payload == "last" {
			break
		}
	}
	if total, _ := b.Clients(0, -1); total != 1 {
		t.Errorf("there are %d sessions", total)
	}
}

// fight connects with the same client id and sends itself a message, which it must receive as
// long as the connection lasts.
func (b *broker) fight(dice *rand.Rand, text string) {
	h := packet.Connect{Version: packet.V5, ClientID: "rival", CleanStart: dice.IntN(2) == 0, ReceiveMaximum: 65535}
	if dice.IntN(3) > 0 {
		h.SessionExpiry, h.HasSessionExpiry = uint32(dice.IntN(2)*3600), true
	}
	c := b.Dial()
	defer c.Close()
	p := packet.AppendConnect(nil, &h)
	p = packet.AppendSubscribe(p, packet.V5, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: "own", Options: 1}}})
	p = packet.AppendPublish(p, packet.V5, &packet.Outgoing{Topic: "own", QoS: 1, PacketID: 2, Payload: []byte(text)})
	if _, err := c.Write(p); err != nil {
		return
	}
	for {
		p, err := c.Read()
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			b.T.Errorf("%s is connected, but its message does not come", text)
			return
		case err != nil, p[0]>>4 == packet.TypeDisconnect:
			return
		case p[0]>>4 == packet.TypePublish:
			if m := c.Parse(p); m.Payload == text {
				return
			}
		}
	}
}

// TestWillAtTakeOver publishes the Will of a session that is taken over, before CONNACK of the
// next connection [MQTT-3.1.3-9].
func TestWillAtTakeOver(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	watcher := b.Connect(fresh("watcher"))
	watcher.Subscribe("will", 0)
	h := keeps("c")
	for i := range 50 {
		h.Will = &packet.Will{Topic: "will", Payload: fmt.Append(nil, i)}
		b.Connect(h)
		if i == 0 {
			continue
		}
		if m := watcher.WantMessage(); m.Payload != fmt.Sprint(i-1) {
			t.Fatalf("at take-over %d the Will was %q", i, m.Payload)
		}
	}
}

// TestWillOnce publishes a Will whose delay is over, and deletes it in the same transaction.
func TestWillOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	reader := b.Connect(keeps("reader"))
	reader.Subscribe("will", 1)
	h := keeps("c")
	h.Will = &packet.Will{Topic: "will", Payload: []byte("w"), QoS: 1, Delay: 1}
	b.Connect(h).Close()
	reader.Ack(packet.TypePuback, reader.WantMessage().ID)
	until(t, "the message is done with", func() bool { return b.queue("reader") == 0 })
	b.close()

	b = start(t, dir)
	if i, _, err := b.Client("c"); err != nil || i.Will != nil {
		t.Errorf("after a restart the Will is %v, %v", i.Will, err)
	}
	if n := b.queue("reader"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
}

// TestWillOnFullDisk delivers a Will that could not be stored when it was due.
func TestWillOnFullDisk(t *testing.T) {
	t.Parallel()
	var disk *faulty
	b := start(t, t.TempDir(), withFaulty(&disk))
	reader := b.Connect(keeps("reader"))
	reader.Subscribe("will", 1)
	h := fresh("c")
	h.Will = &packet.Will{Topic: "will", Payload: []byte("w"), QoS: 1}
	c := b.Connect(h)
	disk.fail()
	c.Close()
	until(t, "the session is gone", func() bool { _, _, err := b.Client("c"); return err != nil })
	until(t, "the Will waits", func() bool { return b.queue("reader") == 1 })
	disk.work()
	if m := reader.WantMessage(); m.Payload != "w" {
		t.Errorf("got %v", m)
	}
}

// TestEndWhileStoring ends a session after a message was queued for it and before the message is
// submitted to the store: nothing of it is left.
func TestEndWhileStoring(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), &authority{reached: make(chan struct{}), open: make(chan struct{})}
	b := start(t, dir, func(_ *engine.Config, p *engine.Parts) { p.Authority = authority })
	c := b.Connect(keeps("c"))
	c.Subscribe("a", 1)
	c.Disconnect()
	member := b.Connect(fresh("member"))
	member.Subscribe("$share/group/a", 0)
	publisher := b.Connect(fresh("p"))
	authority.shut.Store(true)
	publisher.Publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1})
	<-authority.reached // c has the message, and the right of the member is being checked
	check(t, b.Forget(t.Context(), "c"))
	check(t, b.Publish(&engine.Message{Topic: "z", Payload: []byte("z"), Retain: true})) // the end is stored now
	close(authority.open)
	publisher.WantAck(packet.TypePuback)
	b.close()
	if log := reopened(t, dir); strings.Contains(log, "level=WARN") {
		t.Errorf("something is left in the store: %s", log)
	}
}

// blockingAuthority is a permissive authority that, when shut, blocks one check of the right to
// receive.
type authority struct {
	permissive
	shut          atomic.Bool
	reached, open chan struct{}
}

func (d *authority) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	a, err := d.permissive.Authenticate(ctx, l)
	if l.ClientID == "member" {
		a.Rights = guarded{authority: d}
	}
	return a, err
}

type guarded struct {
	everything
	authority *authority
}

func (g guarded) Allowed(k engine.Kind, _ string) bool {
	if k == engine.Receive && g.authority.shut.CompareAndSwap(true, false) {
		close(g.authority.reached)
		<-g.authority.open
	}
	return true
}

// reopened loads what is stored and returns what the store logs about it.
func reopened(t *testing.T, dir string) string {
	t.Helper()
	var log bytes.Buffer
	f, err := schema.Open(t.Context(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	check(t, err)
	s, err := store.Open(t.Context(), f, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	check(t, err)
	_, err = s.Load(t.Context())
	check(t, err)
	check(t, s.Close(t.Context()))
	check(t, f.Close())
	return log.String()
}

// TestForgetConnected ends the session of a connected client, whatever it does at that moment.
func TestForgetConnected(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(keeps("c"))
	check(t, b.Forget(t.Context(), "c"))
	if p, err := c.Read(); err != nil || p[0]>>4 != packet.TypeDisconnect || p[2] != packet.ReasonAdministrativeAction {
		t.Errorf("got % x, %v", p, err)
	}
	if _, err := c.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection ends with %v", err)
	}
	if b.Connect(keeps("c")).Present {
		t.Error("the session is still there")
	}
	if err := b.Forget(t.Context(), "nobody"); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("forgetting nobody gives %v", err)
	}
}
