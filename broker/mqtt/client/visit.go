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

// hush is for how long a broker that has sent retained messages is to be quiet
// before it is asked whether that was all.
const hush = 50 * time.Millisecond

// visit is a short connection on which retained messages are received.
type visit struct {
	*conn
	feed    *Feed
	take    func(messaging.Message) bool
	message incoming
}

// forbidden is a subscription that the broker refuses.
type forbidden struct{ code byte }

func (f forbidden) Error() string {
	return fmt.Sprintf("the subscription was refused with code 0x%02x", f.code)
}

// errEnough is the end of a visit whose caller has enough.
var errEnough = errors.New("enough")

// visit hands over what is retained until take has enough.
func (f *Feed) visit(ctx context.Context, filter string, take func(messaging.Message) bool) error {
	select {
	case f.visiting <- struct{}{}:
		defer func() { <-f.visiting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c, err := f.dial(ctx, login{clientID: f.options.ClientID + "-r", clean: true})
	if err == nil {
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		v := &visit{conn: c, feed: f, take: take}
		err = v.receive(ctx, filter)
	}
	no, refused := errors.AsType[forbidden](err)
	switch {
	case err == nil, errors.Is(err, errEnough):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case refused:
		return &broker.Error{Kind: broker.Denied, Op: "retained", Err: no,
			Msg: fmt.Sprintf("the broker does not let the connection's user subscribe to %q", filter)}
	}
	return f.options.Explain(err)
}

// receive subscribes. What is retained comes right after that, so that it is all
// there when the broker answers a PINGREQ, and after some quiet another one with
// nothing in between: the quiet may have been our own. QoS 0 keeps it out of the
// limits of queues.
func (v *visit) receive(ctx context.Context, filter string) error {
	s := &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: filter}}}
	if err := v.write(packet.AppendPingreq(packet.AppendSubscribe(nil, v.version, s))); err != nil {
		return err
	}
	for came := true; ; {
		n, err := v.untilPong()
		if err != nil {
			return err
		}
		if n == 0 && !came {
			return v.write(appendGoodbye(nil))
		}
		came = n > 0
		rest(ctx, hush)
		if err := v.write(packet.AppendPingreq(nil)); err != nil {
			return err
		}
	}
}

func (v *visit) write(b []byte) error { return writeAll(v.Conn, b, v.timing.Write) }

// untilPong hands over what comes before the next PINGRESP, and counts it.
func (v *visit) untilPong() (n int, err error) {
	for {
		first, body, cut, err := v.next()
		if err != nil {
			return n, err
		}
		switch first >> 4 {
		case packet.TypePingresp:
			return n, nil
		case packet.TypeSuback:
			err = admitted(body, v.version)
		case packet.TypePublish:
			n++
			err = v.hand(first, body, cut)
		default:
			err = errMalformed
		}
		if err != nil {
			return n, err
		}
	}
}

// admitted looks at the answer to the one subscription of a visit.
func admitted(body []byte, version byte) error {
	_, codes, err := decodeCodes(body, version)
	switch {
	case err != nil:
		return err
	case len(codes) != 1:
		return errMalformed
	case codes[0] >= packet.ReasonUnspecified:
		return forbidden{codes[0]}
	}
	return nil
}

// hand hands a retained message over; what is published meanwhile is passed over.
func (v *visit) hand(first byte, body []byte, cut bool) error {
	if err := v.message.decode(first, body, v.version); err != nil {
		return err
	}
	if !v.message.retain || cut {
		return nil
	}
	m := messaging.Message{Topic: string(v.message.topic)}
	v.message.fill(&m, v.feed.options.Now().UnixMilli())
	m.QoS = 1
	if !v.take(m) {
		return errEnough
	}
	return nil
}
