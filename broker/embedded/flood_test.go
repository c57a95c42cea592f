package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// rounds and burst are how often, and how many messages of how many bytes, are published to
// a client that keeps up and one that does not read: more than the buffers of its
// connection take.
const (
	rounds    = 9
	burst     = 3000
	burstSize = 1 << 10
)

// TestSlowConsumer: a client stops reading, and no write of the broker times out.
// Publishers do not wait for it, others receive everything in order, and what the client
// loses is counted.
func TestSlowConsumer(t *testing.T) {
	for qos := range byte(3) {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) { testSlowConsumer(t, qos) })
	}
}

func testSlowConsumer(t *testing.T, qos byte) {
	const queue = burst + 1000 // enough for a client that keeps up
	b := start(t, func(c *Config) { c.MaxQueuedMessages, c.WriteTimeout = queue, time.Hour })
	keepsUp := join(t, b, 4, as(adminName, adminPassword), withID("keeps-up"))
	keepsUp.Subscribe(0, "burst")
	publisher := join(t, b, 4, as(adminName, adminPassword), withID("publisher"))
	unreading(t, b, withID("slow"))

	subscribed := broker.SubscriptionSpec{Topic: "burst", QoS: int(qos)}
	if err := b.SubscribeClient(t.Context(), "slow", subscribed); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		publisher.burst(keepsUp, qos)
	}
	i, _, err := b.engine.Client("slow")
	if err != nil {
		t.Fatal(err)
	}
	if !i.Connected || i.Queue.Messages > queue {
		t.Errorf("connected: %t, with %d messages of %d in the queue", i.Connected, i.Queue.Messages, queue)
	}
	waiting, dropped := i.Queue.Messages, i.Dropped[engine.DropQueueFull]
	if qos == 0 {
		waiting += i.Delivered // what was sent is not in the queue any longer
	}
	if dropped == 0 || dropped+waiting != rounds*burst {
		t.Errorf("%d messages were dropped and %d not, of %d", dropped, waiting, rounds*burst)
	}
	if got := b.engine.Counts().Dropped[engine.DropQueueFull]; got != dropped {
		t.Errorf("%d messages were dropped because of a full queue, %d for the client", got, dropped)
	}
	shown, err := b.InspectClient(t.Context(), "slow")
	if err != nil || shown.NumDropped != dropped {
		t.Errorf("inspection shows %d dropped messages, want %d (%v)", shown.NumDropped, dropped, err)
	}
}

// unreading joins a client with a small receive buffer.
func unreading(t *testing.T, b *Broker, options ...connectOption) *device {
	t.Helper()
	d := dial(t, b, 5)
	if err := d.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if ack := d.SendConnect(append(options, as(adminName, adminPassword))...); ack.Reason != 0 {
		t.Fatalf("CONNACK code %d", ack.Reason)
	}
	return d
}

// burst publishes many messages at once and waits until all are acknowledged and have
// arrived, in order.
func (d *device) burst(at *device, qos byte) {
	d.T.Helper()
	arrived := make(chan error, 1)
	go func() { arrived <- at.arrivals() }()
	for i := range burst {
		d.Send(d.Message("burst", strconv.Itoa(i)+strings.Repeat(" ", burstSize), qos, false))
	}
	d.wantAcknowledged(qos)
	if err := <-arrived; err != nil {
		d.T.Fatal(err)
	}
}

// arrivals reads the messages of a burst.
func (d *device) arrivals() error {
	for i := range burst {
		pk, err := d.Next()
		if err != nil {
			return err
		}
		if got := string(bytes.TrimRight(pk.Payload, " ")); got != strconv.Itoa(i) {
			return fmt.Errorf("got message %s, want %d", got, i)
		}
	}
	return nil
}

// wantAcknowledged waits until a burst is acknowledged, and completes its part of the flow
// [MQTT-4.3.3-1].
func (d *device) wantAcknowledged(qos byte) {
	d.T.Helper()
	switch qos {
	case 1:
		for range burst {
			d.Want(packet.Puback)
		}
	case 2:
		for range burst {
			id := d.Want(packet.Pubrec).ID
			d.Send(packet.Packet{Type: packet.Pubrel, ID: id})
		}
		for range burst {
			d.Want(packet.Pubcomp)
		}
	}
}

// TestSlowConsumerIsDisconnected disconnects the clients whose queue is full, and no
// others. What waits for a persistent session is delivered after its reconnect.
func TestSlowConsumerIsDisconnected(t *testing.T) {
	t.Parallel()
	const queue = 100
	b := start(t, func(c *Config) {
		c.SlowConsumer, c.MaxQueuedMessages, c.WriteTimeout = slowDisconnect, queue, time.Hour
	})
	slow := unreading(t, b, withID("slow"), persistent)
	slow.Subscribe(1, "burst")
	publisher := join(t, b, 5, as(adminName, adminPassword))
	for range queue {
		publisher.Publish("burst", "x", 1)
	}
	if i, _, _ := b.engine.Client("slow"); !i.Connected || dropsOf(&i).QueueFull != 0 {
		t.Fatalf("connected: %t, %d messages dropped, although the queue holds %d", i.Connected, i.Dropped, queue)
	}
	publisher.Publish("burst", "too many", 1)
	slow.wantForgotten(b)
	for range b.config.MaxInflightMessages {
		slow.Want(packet.Publish)
	}
	if got := slow.Want(packet.Disconnect).Reason; got != packet.QuotaExceeded {
		t.Errorf("DISCONNECT code %#x, want %#x", got, packet.QuotaExceeded)
	}
	slow.WantEnd()
	back := join(t, b, 5, as(adminName, adminPassword), withID("slow"), persistent)
	for range queue {
		pk := back.Want(packet.Publish)
		if string(pk.Payload) != "x" {
			t.Fatalf("got %q", pk.Payload)
		}
		back.Send(packet.Packet{Type: packet.Puback, ID: pk.ID})
	}
	if got := publisher.Publish("burst", "x", 1); got != 0 {
		t.Errorf("PUBACK code %d", got)
	}
	if i, _, _ := b.engine.Client("slow"); !i.Connected || dropsOf(&i).QueueFull != 1 {
		t.Errorf("connected: %t, %d messages dropped, want 1", i.Connected, i.Dropped)
	}
}

// TestUnreadAnswers: clients send requests without reading the responses. The broker does
// not queue them without bound: it stops reading requests.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	ping := []byte{0xc0, 0}
	publish := []byte{0x34, 6, 0, 1, 'a', 0, 1, 'x'}
	for name, question := range map[string][]byte{"PINGREQ": ping, "PUBLISH of QoS 2": publish} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, func(c *Config) { c.WriteTimeout = time.Hour })
			d := dial(t, b, 4)
			if err := errors.Join(d.Conn.(*net.TCPConn).SetReadBuffer(4<<10), d.Conn.(*net.TCPConn).SetWriteBuffer(64<<10)); err != nil {
				t.Fatal(err)
			}
			if ack := d.SendConnect(as(adminName, adminPassword), withID("asks")); ack.Reason != 0 {
				t.Fatalf("CONNACK code %d", ack.Reason)
			}
			taken, most := d.askUntilStalled(bytes.Repeat(question, 8<<10)), 12<<20
			t.Logf("%d KiB of questions were taken", taken>>10)
			if taken > most {
				t.Errorf("%d KiB of questions were taken from a client that reads no answer, want %d at most", taken>>10, most>>10)
			}
			join(t, b, 4, as(adminName, adminPassword)).Publish("others", "", 1)
		})
	}
}

// askUntilStalled writes the same until nothing is accepted for a while, or too much was,
// and returns the number of bytes.
func (d *device) askUntilStalled(questions []byte) (taken int) {
	d.T.Helper()
	const while, tooMuch = 500 * time.Millisecond, 16 << 20
	for taken < tooMuch {
		if err := d.Conn.SetWriteDeadline(time.Now().Add(while)); err != nil {
			d.T.Fatal(err)
		}
		n, err := d.Conn.Write(questions)
		taken += n
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			d.T.Fatal(err)
		case n == 0:
			return taken
		default:
			questions = append(questions[n:len(questions):len(questions)], questions[:n]...) // continue within the packet
		}
	}
	return taken
}
