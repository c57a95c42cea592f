//go:build linux

package engine_test

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// TestParkedConnectionsHaveNoGoroutine connects many clients. Silent ones take no goroutine, and
// all get their messages.
func TestParkedConnectionsHaveNoGoroutine(t *testing.T) {
	const clients = 300
	b := start(t, t.TempDir())
	before := runtime.NumGoroutine()
	all := make([]*client, clients)
	for i := range all {
		all[i] = b.Connect(fresh(fmt.Sprint("c", i)))
		all[i].Subscribe("t", 1)
	}
	until(t, "most connections are parked", func() bool { return runtime.NumGoroutine() < before+clients/3 })
	all[0].Publish(packet.Outgoing{Topic: "t", Payload: []byte("x"), QoS: 1, PacketID: 7})
	for _, c := range all {
		c.Ack(packet.TypePuback, c.WantMessage().ID)
	}
	until(t, "all is acknowledged", func() bool { return b.queue("c0") == 0 && b.queue(fmt.Sprint("c", clients-1)) == 0 })
	for _, c := range all[1:] {
		c.Close()
	}
	until(t, "all others are gone", func() bool { return b.present() == 1 })
}

// TestParkedConnectionIsSilent ends parked connections after one and a half times the keep alive,
// and only those whose clients send nothing [MQTT-3.1.2-22].
func TestParkedConnectionIsSilent(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	began := time.Now()
	connect := func(id string, keepAlive uint16) *client {
		h := fresh(id)
		h.KeepAlive = keepAlive
		return b.Connect(h)
	}
	silent, talking, patient := connect("silent", 1), connect("talking", 1), connect("patient", 0)
	ended := make(chan time.Duration, 1)
	go func() {
		silent.AwaitClose()
		ended <- time.Since(began)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case lasted := <-ended:
			if lasted < 1500*time.Millisecond {
				t.Errorf("silence has ended the connection after %s", lasted)
			}
			patient.Ping()
			return
		case <-tick.C:
			if time.Since(began) < time.Second { // a slow machine may end it later, rightly
				talking.Ping()
			}
		}
	}
}

// TestParkedConnectionIsClosedUnread ends a parked connection of which something is beneath the
// packets, as TLS: it is not read again.
func TestParkedConnectionIsClosedUnread(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	var reads atomic.Int64
	parked := make(chan struct{}, 1)
	c := b.listen(func(conn net.Conn) {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		check(t, err)
		counted := &countedReads{conn, &reads}
		b.Serve(&engine.Socket{Conn: counted, Descriptor: raw, Address: "127.0.0.1", Protocol: "MQTT"})
		parked <- struct{}{}
	}).Connect(fresh("c"))
	c.Ping()
	<-parked
	before := reads.Load()
	check(t, b.Disconnect("c"))
	until(t, "the client is gone", func() bool { return b.present() == 0 })
	if n := reads.Load() - before; n > 0 {
		t.Errorf("the connection was read %d times after its end", n)
	}
}

// countedReads counts the reads.
type countedReads struct {
	net.Conn
	reads *atomic.Int64
}

func (c *countedReads) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(p)
}

// FuzzParked splits what a client sends, and ends it, at any byte.
func FuzzParked(f *testing.F) {
	f.Add([]byte{1}, uint16(1000))
	f.Add([]byte{255}, uint16(40))
	f.Add([]byte{3, 20, 1, 1, 1, 90}, uint16(133))
	b := start(f, f.TempDir())
	w := b.Connect(fresh("watcher"))
	w.Subscribe("t/#", 0)
	n := 0
	f.Fuzz(func(t *testing.T, splits []byte, end uint16) {
		n++
		b.T, w.T = t, t
		checkSplit(t, b, w, "t/"+strconv.Itoa(n), splits, int(end))
	})
}

// TestParkedAtEveryByte splits what a client sends at each byte, and ends it at each byte.
func TestParkedAtEveryByte(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	w := b.Connect(fresh("watcher"))
	w.Subscribe("t/#", 0)
	sent, _ := script("t/x")
	for at := 1; at < len(sent); at++ {
		checkSplit(t, b, w, fmt.Sprint("t/s", at), []byte{byte(at)}, len(sent))
		checkSplit(t, b, w, fmt.Sprint("t/e", at), nil, at)
	}
}

// script returns packets of every kind that a loop handles or leaves to a goroutine, and the
// length of the packets up to and including each PUBLISH.
func script(topic string) (sent []byte, published []int) {
	publish := func(qos byte, id uint16) {
		sent = packet.AppendPublish(sent, packet.V5, &packet.Outgoing{
			Topic: topic, Payload: []byte(strconv.Itoa(len(published))), QoS: qos, PacketID: id,
		})
		published = append(published, len(sent))
	}
	publish(0, 0)
	sent = append(sent, packet.TypePingreq<<4, 0)
	publish(1, 1)
	sent = packet.AppendSubscribe(sent, packet.V5, &packet.Subscribe{PacketID: 2, Filters: []packet.Filter{{Filter: "own"}}})
	publish(2, 3)
	sent = packet.AppendAck(sent, packet.V5, packet.TypePubrel, 3, 0, "")
	publish(0, 0)
	return sent, published
}

// checkSplit sends the script in pieces, of which the broker reads one before it gets the next,
// and ends the connection after some bytes. The watcher must get each message that was sent
// whole, and then the Will.
func checkSplit(t *testing.T, b *broker, w *client, topic string, splits []byte, end int) {
	t.Helper()
	h := fresh("splitter")
	h.Will = &packet.Will{Topic: topic, Payload: []byte("will")}
	c := b.Connect(h)
	sent, published := script(topic)
	sent = sent[:min(end, len(sent))]
	before := b.Totals().BytesReceived
	written := int64(0)
	for i := 0; len(sent) > 0; i++ {
		piece := len(sent)
		if i < len(splits) {
			piece = min(piece, 1+int(splits[i]))
		}
		c.Send(sent[:piece])
		sent, written = sent[piece:], written+int64(piece)
		until(t, "a piece is read", func() bool { return b.Totals().BytesReceived >= before+written })
	}
	check(t, c.Conn.(*net.TCPConn).CloseWrite())
	for n, whole := range published {
		if whole > end {
			break
		}
		m := w.WantMessage()
		if m.Topic != topic || m.Payload != strconv.Itoa(n) {
			t.Fatalf("got %s %q, want message %d of %s", m.Topic, m.Payload, n, topic)
		}
	}
	if m := w.WantMessage(); m.Topic != topic || m.Payload != "will" {
		t.Fatalf("got %s %q, want the Will of %s", m.Topic, m.Payload, topic)
	}
	c.AwaitClose()
}
