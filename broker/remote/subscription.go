package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// allTopicsSubscriber subscribes for topictree on a connection of its own. On the session's
// connection, responses would queue behind everything that is published.
type allTopicsSubscriber struct{ b *Broker }

// Subscribe opens a connection if there is a session, and subscribes at QoS 0, to which limits
// of queued or in-flight messages do not apply. Its error is a [*broker.Error].
func (e allTopicsSubscriber) Subscribe(ctx context.Context, filter string, deliver func(topic string, payload []byte, qos byte, retain bool)) (broker.Feed, error) {
	return e.subscribe(ctx, []string{filter}, deliver)
}

// subscribe is Subscribe for filters that do not overlap.
func (e allTopicsSubscriber) subscribe(ctx context.Context, filters []string, deliver func(topic string, payload []byte, qos byte, retain bool)) (broker.Feed, error) {
	b := e.b
	ctx, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
	defer cancel()
	if _, err := b.link.current(ctx); err != nil {
		return nil, b.unavailable(opListTopics, err)
	}
	conn, f := b.endpoint.Open(ctx, new(dial.Handshake))
	if f != nil {
		return nil, b.unavailable(opListTopics, b.explain(f))
	}
	v := &shortConn{conn: newCheckedConn(conn, len(filters), b.timing.writeTimeout, b.log)}
	inTime := context.AfterFunc(ctx, func() { v.conn.Close() })
	credentials := b.connectPacket()
	credentials.Keepalive = uint16(b.timing.readTimeout / time.Second)
	err := v.subscribe(credentials, filters)
	if !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		v.conn.Close()
		return nil, subscribeError(err)
	}
	return newSubscription(v, b.timing, deliver), nil
}

// refusedFilterError means that the broker refused the subscription to a filter.
type refusedFilterError struct{ filter string }

func (e *refusedFilterError) Error() string {
	return fmt.Sprintf("the subscription to %q was refused", e.filter)
}

// subscribeError explains why nothing can be received.
func subscribeError(err error) error {
	e := &broker.Error{Kind: broker.Unavailable, Op: opListTopics, Msg: "a second connection to the broker, to receive what is published, failed", Err: err}
	if refused, ok := errors.AsType[*refusedFilterError](err); ok {
		e.Kind, e.Msg = broker.Denied, fmt.Sprintf("the broker keeps no topic tree, and does not let the connection's user subscribe to %q to make one", refused.filter)
	}
	return e
}

// subscribe connects, subscribes and waits for SUBACK.
func (v *shortConn) subscribe(credentials *packets.ConnectPacket, filters []string) error {
	if err := v.handshake(credentials); err != nil {
		return err
	}
	if err := v.write(subscribePacket(1, filters...)); err != nil {
		return err
	}
	for {
		p, err := packets.ReadPacket(v.conn)
		if err != nil {
			return err
		}
		if ack, ok := p.(*packets.SubackPacket); ok {
			if i := slices.Index(ack.ReturnCodes, refusedSubscription); i >= 0 {
				return &refusedFilterError{filters[min(i, len(filters)-1)]}
			}
			return nil
		}
	}
}

// subscription is an active subscription on a connection of its own.
type subscription struct {
	conn *shortConn
	lost chan struct{}
	wg   sync.WaitGroup
}

func newSubscription(v *shortConn, t timing, deliver func(string, []byte, byte, bool)) *subscription {
	f := &subscription{conn: v, lost: make(chan struct{})}
	f.wg.Go(func() { f.read(t.readTimeout, deliver) })
	f.wg.Go(func() { f.ping(t.pingInterval) })
	return f
}

// Lost returns a channel that is closed when the connection is lost.
func (f *subscription) Lost() <-chan struct{} { return f.lost }

// Stop disconnects and waits for the goroutines.
func (f *subscription) Stop() {
	f.conn.write(packets.NewControlPacket(packets.Disconnect)) //nolint:errcheck // it may be lost already
	f.conn.conn.Close()
	f.wg.Wait()
}

// read delivers published messages, without retained ones [MQTT-3.3.1-9]. A broker that sends
// nothing, although pinged, is lost.
func (f *subscription) read(silence time.Duration, deliver func(string, []byte, byte, bool)) {
	defer close(f.lost)
	defer f.conn.conn.Close()
	for {
		f.conn.conn.SetReadDeadline(time.Now().Add(silence)) //nolint:errcheck // then reading fails as well
		p, err := packets.ReadPacket(f.conn.conn)
		if err != nil {
			return
		}
		if p, ok := p.(*packets.PublishPacket); ok && !p.Retain {
			deliver(p.TopicName, p.Payload, p.Qos, false)
		}
	}
}

// ping keeps the connection alive.
func (f *subscription) ping(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.conn.write(packets.NewControlPacket(packets.Pingreq)) //nolint:errcheck // the reader notices it
		case <-f.lost:
			return
		}
	}
}
