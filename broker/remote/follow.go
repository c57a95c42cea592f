package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/topictree"
)

// everybody is what topictree subscribes to: the broker, on a connection of its
// own. On the session's, answers would have to queue behind all that is
// published.
type everybody struct{ b *Broker }

// Subscribe opens the connection where there is a session, and subscribes with
// QoS 0, to which no limit of queued or in-flight messages applies. Its error is
// a [*broker.Error].
func (e everybody) Subscribe(ctx context.Context, filter string, deliver func(topic string, payload []byte, qos byte, retain bool)) (topictree.Feed, error) {
	b := e.b
	ctx, cancel := context.WithTimeout(ctx, b.timing.answer)
	defer cancel()
	if _, err := b.link.current(ctx); err != nil {
		return nil, b.unavailable(opListTopics, err)
	}
	conn, f := b.endpoint.Open(ctx, new(atomic.Bool))
	if f != nil {
		return nil, b.unavailable(opListTopics, b.explain(f))
	}
	v := &visit{wire: newWire(conn, 1, b.timing.write, b.log)}
	inTime := context.AfterFunc(ctx, func() { v.wire.Close() })
	credentials := b.credentials()
	credentials.Keepalive = uint16(b.timing.silence / time.Second)
	err := v.subscribe(credentials, filter)
	if !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		v.wire.Close()
		return nil, failedFeed(filter, err)
	}
	return newReception(v, b.timing, deliver), nil
}

// failedFeed says why nothing can be received.
func failedFeed(filter string, err error) error {
	e := &broker.Error{Kind: broker.Unavailable, Op: opListTopics, Msg: "a second connection to the broker, to receive what is published, failed", Err: err}
	if errors.Is(err, errForbidden) {
		e.Kind, e.Msg = broker.Denied, fmt.Sprintf("the broker keeps no topic tree, and does not let the connection's user subscribe to %q to make one", filter)
	}
	return e
}

// subscribe logs in, subscribes and waits for the broker to grant it.
func (v *visit) subscribe(credentials *packets.ConnectPacket, filter string) error {
	if err := v.greet(credentials); err != nil {
		return err
	}
	if err := v.write(subscription(filter)); err != nil {
		return err
	}
	for {
		p, err := packets.ReadPacket(v.wire)
		if err != nil {
			return err
		}
		if ack, ok := p.(*packets.SubackPacket); ok {
			if ack.ReturnCodes[0] == refusedSubscription {
				return errForbidden
			}
			return nil
		}
	}
}

// reception is a subscription that stands on a connection of its own.
type reception struct {
	visit *visit
	lost  chan struct{}
	wg    sync.WaitGroup
}

func newReception(v *visit, t timing, deliver func(string, []byte, byte, bool)) *reception {
	f := &reception{visit: v, lost: make(chan struct{})}
	f.wg.Go(func() { f.read(t.silence, deliver) })
	f.wg.Go(func() { f.ping(t.ping) })
	return f
}

// Lost is closed when the connection is gone.
func (f *reception) Lost() <-chan struct{} { return f.lost }

// Stop takes leave and waits for the end of the connection.
func (f *reception) Stop() {
	f.visit.write(packets.NewControlPacket(packets.Disconnect)) //nolint:errcheck // it may be gone already
	f.visit.wire.Close()
	f.wg.Wait()
}

// read hands over what is published. What is marked as retained was there before
// [MQTT-3.3.1-9]. A broker that is silent, though pinged, is lost.
func (f *reception) read(silence time.Duration, deliver func(string, []byte, byte, bool)) {
	defer close(f.lost)
	defer f.visit.wire.Close()
	for {
		f.visit.wire.SetReadDeadline(time.Now().Add(silence)) //nolint:errcheck // where it cannot be set, reading fails
		p, err := packets.ReadPacket(f.visit.wire)
		if err != nil {
			return
		}
		if p, ok := p.(*packets.PublishPacket); ok && !p.Retain {
			deliver(p.TopicName, p.Payload, p.Qos, false)
		}
	}
}

// ping keeps the connection alive.
func (f *reception) ping(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.visit.write(packets.NewControlPacket(packets.Pingreq)) //nolint:errcheck // the reader finds out
		case <-f.lost:
			return
		}
	}
}
