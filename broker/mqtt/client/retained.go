package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// quietPeriod is how long no retained message must arrive before the broker is asked again
// whether there are more.
const quietPeriod = 50 * time.Millisecond

// retainedReader is a short connection that receives retained messages.
type retainedReader struct {
	*conn
	client  *Client
	filter  string
	take    func(messaging.Message) bool
	message incoming
}

// SubscriptionDeniedError is a SUBACK that refuses a subscription.
type SubscriptionDeniedError struct {
	Filter string
	Code   byte
}

func (e *SubscriptionDeniedError) Error() string {
	return fmt.Sprintf("the subscription to %q was refused with code 0x%02x", e.Filter, e.Code)
}

// errStopped means that the caller wants no more.
var errStopped = errors.New("no more messages are wanted")

// readRetained passes retained messages to take until that returns false.
func (f *Client) readRetained(ctx context.Context, filter string, take func(messaging.Message) bool) error {
	select {
	case f.retainedSlot <- struct{}{}:
		defer func() { <-f.retainedSlot }()
	case <-ctx.Done():
		return ctx.Err()
	}
	serving, err := f.serving(ctx)
	if err != nil {
		return err
	}
	c, err := f.dial(ctx, connectParams{serving: serving, clientID: f.options.ClientID + "-r", clean: true})
	if err == nil {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		v := &retainedReader{conn: c, client: f, filter: filter, take: take}
		err = v.receive(ctx)
	}
	denied, refused := errors.AsType[*SubscriptionDeniedError](err)
	switch {
	case err == nil, errors.Is(err, errStopped):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case refused:
		return &broker.Error{Kind: broker.Denied, Op: "retained", Err: denied,
			Msg: fmt.Sprintf("the broker does not let the connection's user subscribe to %q", filter)}
	}
	return f.options.Explain(err)
}

// receive subscribes. Retained messages follow at once; they are complete when the broker has
// answered a PINGREQ and, after a quiet period, another one without messages between: the
// delay may have been on this side. QoS 0 avoids queue limits.
func (v *retainedReader) receive(ctx context.Context) error {
	s := &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: v.filter}}}
	if err := v.write(packet.AppendPingreq(packet.AppendSubscribe(nil, v.version, s))); err != nil {
		return err
	}
	for received := true; ; {
		n, err := v.readUntilPong()
		if err != nil {
			return err
		}
		if n == 0 && !received {
			return v.write(appendGoodbye(nil))
		}
		received = n > 0
		sleep(ctx, quietPeriod)
		if err := v.write(packet.AppendPingreq(nil)); err != nil {
			return err
		}
	}
}

func (v *retainedReader) write(b []byte) error { return writeAll(v.Conn, b, v.timing.Write) }

// readUntilPong handles the packets before the next PINGRESP, and counts messages.
func (v *retainedReader) readUntilPong() (n int, err error) {
	for {
		first, body, cut, err := v.next()
		if err != nil {
			return n, err
		}
		switch first >> 4 {
		case packet.TypePingresp:
			return n, nil
		case packet.TypeSuback:
			err = checkSuback(body, v.version, v.filter)
		case packet.TypePublish:
			n++
			err = v.deliver(first, body, cut)
		default:
			err = errMalformed
		}
		if err != nil {
			return n, err
		}
	}
}

// checkSuback checks the SUBACK of subscriptions to filters.
func checkSuback(body []byte, version byte, filters ...string) error {
	_, codes, err := decodeCodes(body, version)
	switch {
	case err != nil:
		return err
	case len(codes) != len(filters):
		return errMalformed
	}
	for i, code := range codes {
		if code >= packet.ReasonUnspecified {
			return &SubscriptionDeniedError{filters[i], code}
		}
	}
	return nil
}

// deliver passes a retained message on, and ignores messages published meanwhile.
func (v *retainedReader) deliver(first byte, body []byte, cut bool) error {
	if err := v.message.decode(first, body, v.version); err != nil {
		return err
	}
	if !v.message.retain || cut {
		return nil
	}
	m := messaging.Message{Topic: string(v.message.topic)}
	v.message.copyTo(&m, v.client.options.Now().UnixMilli())
	m.QoS = 1
	if !v.take(m) {
		return errStopped
	}
	return nil
}
