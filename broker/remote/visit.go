package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
)

// maxVisits is how many short connections to one broker there may be at a time.
const maxVisits = 4

// errForbidden is a subscription that the broker refuses.
var errForbidden = errors.New("subscription refused")

// visit is a short connection of its own, to receive retained messages. On the
// session's connection they would mix with what comes in there anyway, and the
// end of a subscription might be that of one of its own.
type visit struct {
	wire  *wire
	quiet time.Duration
}

// retained receives the retained messages that match a filter, in the order in
// which the broker sends them. An error ends it, a [*broker.Error].
func (b *Broker) retained(ctx context.Context, op, filter string) iter.Seq2[*packets.PublishPacket, error] {
	return func(yield func(*packets.PublishPacket, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, b.timing.answer)
		defer cancel()
		v, err := b.enter(ctx, op)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { <-b.visits }()
		defer v.wire.Close()
		defer context.AfterFunc(ctx, func() { v.wire.Close() })()
		wanted := true
		if err := v.receive(b.credentials(), filter, func(p *packets.PublishPacket) bool {
			wanted = yield(p, nil)
			return wanted
		}); err != nil && wanted {
			yield(nil, b.failedVisit(ctx, op, filter, err))
		}
	}
}

// enter opens the connection where there is a session and no visit too many.
func (b *Broker) enter(ctx context.Context, op string) (*visit, error) {
	if err := b.settle(ctx, op); err != nil {
		return nil, err
	}
	if err := b.maySecond(ctx, op, broker.CapMessages); err != nil {
		return nil, err
	}
	select {
	case b.visits <- struct{}{}:
	case <-ctx.Done():
		return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "too many others read what this broker retains; try again", Err: ctx.Err()}
	}
	conn, f := b.endpoint.Open(ctx, new(atomic.Bool))
	if f != nil {
		<-b.visits
		return nil, b.unavailable(op, b.explain(f))
	}
	return &visit{wire: newWire(conn, 1, b.timing.write, b.log), quiet: b.timing.quiet}, nil
}

// settle waits until the broker has processed what this service has published, so
// that it is seen on another connection. What is lost with the session is not waited
// for.
func (b *Broker) settle(ctx context.Context, op string) error {
	for {
		s, err := b.link.current(ctx)
		if err != nil {
			return b.unavailable(op, err)
		}
		err = s.fence(ctx)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errLost):
			return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the broker does not answer in time; try again", Err: err}
		}
	}
}

// failedVisit says why the retained messages could not be received.
func (b *Broker) failedVisit(ctx context.Context, op, filter string, err error) error {
	e := &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the connection to the broker was lost while it sent what it retains", Err: err}
	switch {
	case errors.Is(err, errForbidden):
		e.Kind, e.Msg = broker.Denied, fmt.Sprintf("the broker does not let the connection's user subscribe to %q", filter)
	case ctx.Err() != nil:
		e.Msg = "the broker did not send all that it retains in time: give a narrower filter; a Mosquitto drops what goes beyond its " +
			"max_queued_messages while it waits for the network, so raise that there, or set it to 0 for no bound"
	}
	return e
}

// credentials makes the CONNECT of a visit [MQTT-3.1].
func (b *Broker) credentials() *packets.ConnectPacket {
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion, c.CleanSession = "MQTT", 4, true
	c.ClientIdentifier = clientID()
	c.Keepalive = keepAlive // a broker may refuse one that is for ever (max_keepalive)
	c.UsernameFlag, c.Username = b.username != "", b.username
	c.PasswordFlag, c.Password = b.password != "", []byte(b.password)
	return c
}

// receive logs in, subscribes and hands over the retained messages until take
// has enough. A broker sends them right after the subscription, so that they
// are all there when it answers a PINGREQ, then is quiet for a moment, and
// answers another one with nothing in between: the quiet may have been our own.
// QoS 0 keeps them out of the limits of in-flight and queued messages.
func (v *visit) receive(credentials *packets.ConnectPacket, filter string, take func(*packets.PublishPacket) bool) error {
	if err := v.greet(credentials); err != nil {
		return err
	}
	if err := v.write(subscription(filter), packets.NewControlPacket(packets.Pingreq)); err != nil {
		return err
	}
	in := v.pump()
	defer in.stop(v)
	for came := true; ; came = false {
		last, err := v.untilQuiet(in, &came, take)
		if last || err != nil {
			return err
		}
		if err := v.write(packets.NewControlPacket(packets.Pingreq)); err != nil {
			return err
		}
	}
}

// untilQuiet hands over what comes until PINGREQ is answered and the broker then
// is quiet, and notes whether anything came. It tells whether that was all: that
// take has enough, or nothing came before the answer.
func (v *visit) untilQuiet(in *pump, came *bool, take func(*packets.PublishPacket) bool) (last bool, err error) {
	for pinged := false; ; {
		var quiet <-chan time.Time
		if pinged {
			quiet = time.After(v.quiet)
		}
		p, err := in.next(quiet)
		if p == nil || err != nil {
			return false, err
		}
		switch p := p.(type) {
		case *packets.SubackPacket:
			if p.ReturnCodes[0] == refusedSubscription {
				return false, errForbidden
			}
		case *packets.PingrespPacket:
			if pinged = true; !*came {
				return true, v.write(packets.NewControlPacket(packets.Disconnect))
			}
		case *packets.PublishPacket:
			*came = true
			if p.Retain && !take(p) {
				return true, nil
			}
		}
	}
}

// pump reads on a goroutine of its own: waiting can then be given up without a
// deadline on the connection, which a WebSocket does not survive.
type pump struct {
	packets chan packets.ControlPacket // closed at the end of the connection
	err     error                      // why that was; to be read after the closing
	over    chan struct{}              // closed when nothing more is wanted
}

func (v *visit) pump() *pump {
	p := &pump{packets: make(chan packets.ControlPacket), over: make(chan struct{})}
	go p.run(bufio.NewReaderSize(v.wire, 64<<10))
	return p
}

func (p *pump) run(in io.Reader) {
	defer close(p.packets)
	for {
		packet, err := packets.ReadPacket(in)
		if err != nil {
			p.err = err
			return
		}
		select {
		case p.packets <- packet:
		case <-p.over:
			return
		}
	}
}

// next returns the next packet, or nil when quiet is over before there is one.
func (p *pump) next(quiet <-chan time.Time) (packets.ControlPacket, error) {
	select {
	case packet, ok := <-p.packets:
		if !ok {
			return nil, p.err
		}
		return packet, nil
	case <-quiet:
		return nil, nil
	}
}

// stop closes the connection and waits for the end of the reading.
func (p *pump) stop(v *visit) {
	close(p.over)
	v.wire.Close()
	for range p.packets {
	}
}

// subscription makes the SUBSCRIBE of a visit, with QoS 0 [MQTT-3.8].
func subscription(filter string) *packets.SubscribePacket {
	s := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	s.MessageID, s.Topics, s.Qoss = 1, []string{filter}, []byte{0}
	return s
}

func (v *visit) greet(credentials *packets.ConnectPacket) error {
	if err := v.write(credentials); err != nil {
		return err
	}
	p, err := packets.ReadPacket(v.wire)
	if err != nil {
		return err
	}
	if ack, ok := p.(*packets.ConnackPacket); !ok || ack.ReturnCode != packets.Accepted {
		return fmt.Errorf("log-in refused: %w", net.ErrClosed)
	}
	return nil
}

func (v *visit) write(list ...packets.ControlPacket) error {
	for _, p := range list {
		if err := p.Write(v.wire); err != nil {
			return err
		}
	}
	return nil
}
