package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// maxShortConns bounds the short connections to one broker.
const maxShortConns = 4

// errSubscriptionRefused means that the broker refused a subscription.
var errSubscriptionRefused = errors.New("subscription refused")

// shortConn is a short connection for retained messages. On the session's connection they
// would mix with other messages, and the unsubscription might end one of the session's
// subscriptions.
type shortConn struct {
	conn        *checkedConn
	quietPeriod time.Duration
}

// retained yields the retained messages that match a filter, in the broker's order. An error
// is the last element, a [*broker.Error].
func (b *Broker) retained(ctx context.Context, op, filter string) iter.Seq2[*packets.PublishPacket, error] {
	return func(yield func(*packets.PublishPacket, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
		defer cancel()
		v, err := b.openShortConn(ctx, op, 1)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { <-b.shortConns }()
		defer v.conn.Close()
		defer context.AfterFunc(ctx, func() { v.conn.Close() })()
		wanted := true
		if err := v.receive(b.connectPacket(), filter, func(p *packets.PublishPacket) bool {
			wanted = yield(p, nil)
			return wanted
		}); err != nil && wanted {
			yield(nil, b.retainedError(ctx, op, filter, err))
		}
	}
}

// openShortConn opens a connection for subscriptions to a number of filters at once, if there
// is a session and the bound allows it. The caller releases shortConns.
func (b *Broker) openShortConn(ctx context.Context, op string, filters int) (*shortConn, error) {
	if err := b.waitProcessed(ctx, op); err != nil {
		return nil, err
	}
	if err := b.checkSecondConnection(ctx, op, broker.CapMessages); err != nil {
		return nil, err
	}
	select {
	case b.shortConns <- struct{}{}:
	case <-ctx.Done():
		return nil, &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "too many others read what this broker retains; try again", Err: ctx.Err()}
	}
	conn, f := b.endpoint.Open(ctx, new(dial.Handshake))
	if f != nil {
		<-b.shortConns
		return nil, b.unavailable(op, b.explain(f))
	}
	return &shortConn{conn: newCheckedConn(conn, filters, b.timing.writeTimeout, b.log), quietPeriod: b.timing.quietPeriod}, nil
}

// waitProcessed waits until the broker has processed what this service has published, so that
// another connection sees it. It does not wait for messages lost with the session.
func (b *Broker) waitProcessed(ctx context.Context, op string) error {
	for {
		s, err := b.link.current(ctx)
		if err != nil {
			return b.unavailable(op, err)
		}
		err = s.barrier(ctx)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errLost):
			return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the broker does not answer in time; try again", Err: err}
		}
	}
}

// retainedError explains why the retained messages could not be received.
func (b *Broker) retainedError(ctx context.Context, op, filter string, err error) error {
	e := &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the connection to the broker was lost while it sent what it retains", Err: err}
	switch {
	case errors.Is(err, errSubscriptionRefused):
		e.Kind, e.Msg = broker.Denied, fmt.Sprintf("the broker does not let the connection's user subscribe to %q", filter)
	case ctx.Err() != nil:
		e.Msg = "the broker did not send all that it retains in time: give a narrower filter; a Mosquitto drops what goes beyond its " +
			"max_queued_messages while it waits for the network, so raise that there, or set it to 0 for no bound"
	}
	return e
}

// connectPacket returns the CONNECT of a short connection [MQTT-3.1].
func (b *Broker) connectPacket() *packets.ConnectPacket {
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion, c.CleanSession = "MQTT", 4, true
	c.ClientIdentifier = clientID()
	c.Keepalive = keepAlive // a broker may reject 0 (max_keepalive)
	c.UsernameFlag, c.Username = b.username != "", b.username
	c.PasswordFlag, c.Password = b.password != "", []byte(b.password)
	return c
}

// receive connects, subscribes and passes retained messages to take until that returns false.
// A broker sends them right after SUBACK. They are complete when it has answered a PINGREQ,
// then was quiet, and has answered another one without messages between: the delay may have
// been on this side. QoS 0 avoids the limits of in-flight and queued messages.
func (v *shortConn) receive(credentials *packets.ConnectPacket, filter string, take func(*packets.PublishPacket) bool) error {
	if err := v.handshake(credentials); err != nil {
		return err
	}
	if err := v.write(subscribePacket(1, filter), packets.NewControlPacket(packets.Pingreq)); err != nil {
		return err
	}
	in := v.startReader()
	defer in.stop(v)
	err := v.readAll(in, func(s *packets.SubackPacket) error {
		if s.ReturnCodes[0] == refusedSubscription {
			return errSubscriptionRefused
		}
		return nil
	}, take)
	if err != nil {
		return err
	}
	return v.write(packets.NewControlPacket(packets.Disconnect))
}

// readAll handles packets, SUBACK included, until the messages after a SUBSCRIBE and a PINGREQ
// are complete, or take returns false.
func (v *shortConn) readAll(in *packetReader, suback func(*packets.SubackPacket) error, take func(*packets.PublishPacket) bool) error {
	for received := true; ; received = false {
		last, err := v.readUntilQuiet(in, &received, suback, take)
		if last || err != nil {
			return err
		}
		if err := v.write(packets.NewControlPacket(packets.Pingreq)); err != nil {
			return err
		}
	}
}

// readUntilQuiet handles packets until PINGREQ is answered and the broker is quiet, and
// records whether there were messages. It reports whether that was all: take returned false,
// or there were no messages.
func (v *shortConn) readUntilQuiet(in *packetReader, received *bool, suback func(*packets.SubackPacket) error, take func(*packets.PublishPacket) bool) (last bool, err error) {
	for pinged := false; ; {
		var quiet <-chan time.Time
		if pinged {
			quiet = time.After(v.quietPeriod)
		}
		p, err := in.next(quiet)
		if p == nil || err != nil {
			return false, err
		}
		switch p := p.(type) {
		case *packets.SubackPacket:
			if err := suback(p); err != nil {
				return false, err
			}
		case *packets.PingrespPacket:
			if pinged = true; !*received {
				return true, nil
			}
		case *packets.PublishPacket:
			*received = true
			if p.Retain && !take(p) {
				return true, nil
			}
		}
	}
}

// packetReader reads on its own goroutine, so that waiting does not need a deadline, after
// which a WebSocket cannot be used.
type packetReader struct {
	packets chan packets.ControlPacket // closed at the end of the connection
	err     error                      // why it ended; read after packets is closed
	stopped chan struct{}              // closed when nothing more is wanted
}

func (v *shortConn) startReader() *packetReader {
	p := &packetReader{packets: make(chan packets.ControlPacket), stopped: make(chan struct{})}
	go p.run(bufio.NewReaderSize(v.conn, 64<<10))
	return p
}

func (p *packetReader) run(in io.Reader) {
	defer close(p.packets)
	for {
		packet, err := packets.ReadPacket(in)
		if err != nil {
			p.err = err
			return
		}
		select {
		case p.packets <- packet:
		case <-p.stopped:
			return
		}
	}
}

// next returns the next packet, or nil when quiet fires first.
func (p *packetReader) next(quiet <-chan time.Time) (packets.ControlPacket, error) {
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

// stop closes the connection and waits for the reader.
func (p *packetReader) stop(v *shortConn) {
	close(p.stopped)
	v.conn.Close()
	for range p.packets {
	}
}

// subscribePacket returns the SUBSCRIBE of a short connection, at QoS 0 [MQTT-3.8].
func subscribePacket(id uint16, filters ...string) *packets.SubscribePacket {
	s := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
	s.MessageID, s.Topics, s.Qoss = id, filters, make([]byte, len(filters))
	return s
}

func (v *shortConn) handshake(credentials *packets.ConnectPacket) error {
	if err := v.write(credentials); err != nil {
		return err
	}
	p, err := packets.ReadPacket(v.conn)
	if err != nil {
		return err
	}
	if ack, ok := p.(*packets.ConnackPacket); !ok || ack.ReturnCode != packets.Accepted {
		return fmt.Errorf("log-in refused: %w", net.ErrClosed)
	}
	return nil
}

func (v *shortConn) write(list ...packets.ControlPacket) error {
	for _, p := range list {
		if err := p.Write(v.conn); err != nil {
			return err
		}
	}
	return nil
}
