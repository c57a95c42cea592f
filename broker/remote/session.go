package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/dial"
)

// session is one MQTT connection from CONNECT to its end. Close waits for its goroutines
// except the sender, which the library may block for a while; Broker.Close waits for that.
type session struct {
	client  mqtt.Client
	conn    *checkedConn
	pending *pending
	out     chan *call // to the sender; if it is full, callers wait until their context ends
	sys     func(topic string, payload []byte, retained bool)
	offered *offer
	seen    *dial.Handshake

	mayPublish publishCheck // rights of this service's user at the beginning

	secondAllowed bool // other connections are possible; guarded by singleConnection.checking

	subscribed nameSet // topics besides those of every session

	lost chan struct{} // closed when the connection has ended
	once sync.Once     // guards the closing of lost
	err  error         // why it ended; read after lost

	wg sync.WaitGroup
}

// maxQueued bounds the commands waiting to be sent.
const maxQueued = 64

// connect opens a connection and logs in, within connectTimeout.
func (b *Broker) connect(ctx context.Context) (*session, *failure) {
	ctx, cancel := context.WithTimeout(ctx, b.timing.connectTimeout)
	defer cancel()
	seen := new(dial.Handshake)
	conn, f := b.endpoint.Open(ctx, seen)
	if f != nil {
		return nil, f
	}
	s := b.newSession(conn)
	s.seen = seen
	if err := s.handshake(ctx, b.clientOptions()); err != nil {
		return nil, &failure{Stage: dial.StageConnect, Seen: seen, Err: loginRefused(err)}
	}
	b.wg.Go(s.send)
	return s, nil
}

func (b *Broker) newSession(conn net.Conn) *session {
	s := &session{
		conn:       newCheckedConn(conn, 1, b.timing.writeTimeout, b.log),
		pending:    newPending(b.instance),
		out:        make(chan *call, maxQueued),
		sys:        b.sys.receive,
		lost:       make(chan struct{}),
		offered:    &offer{emulated: b.emulated()},
		mayPublish: allowAll,
	}
	s.offered.add(broker.CapMessages) // which needs no plugin
	s.offered.removeEmulated(b.single.why.Load())
	return s
}

// clientOptions returns the settings of the MQTT library. It connects once and with MQTT 3.1.1
// only: its own retries count refused log-ins twice at the broker, and might send commands
// twice.
func (b *Broker) clientOptions() *mqtt.ClientOptions {
	return mqtt.NewClientOptions().
		AddBroker("tcp://broker"). // required, but the connection exists already
		SetClientID(clientID()).
		SetUsername(b.username).
		SetPassword(string(b.password)).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetKeepAlive(keepAlive * time.Second).
		SetPingTimeout(10 * time.Second).
		SetWriteTimeout(5 * time.Second) // for passing a packet to the library's writer
}

// keepAlive is the keep-alive in CONNECT, in seconds.
const keepAlive = 30

// clientID returns a random client id.
func clientID() string { return "signalbox-" + rand.Text()[:13] }

// handshake sends CONNECT and waits for CONNACK. If it returns an error the connection is
// closed.
func (s *session) handshake(ctx context.Context, o *mqtt.ClientOptions) error {
	o.SetCustomOpenConnectionFn(s.openConnection)
	o.SetDefaultPublishHandler(s.receive)
	o.SetConnectionLostHandler(func(_ mqtt.Client, err error) { s.end(err) })
	if deadline, ok := ctx.Deadline(); ok {
		o.SetConnectTimeout(time.Until(deadline))
	}
	s.client = mqtt.NewClient(o)
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	token := s.client.Connect()
	<-token.Done()
	err := token.Error()
	inTime := stop()
	switch {
	case !inTime && err == nil:
		s.close()
		return ctx.Err()
	case !inTime:
		err = ctx.Err() // rather than that the connection was closed
	}
	if err != nil {
		s.conn.Close()
	}
	return err
}

// openConnection returns the existing connection to the library.
func (s *session) openConnection(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return s.conn, nil }

// receive handles a message. The library reads on when it returns, so it never blocks.
func (s *session) receive(_ mqtt.Client, m mqtt.Message) {
	defer s.conn.barriers.handle()
	if strings.HasPrefix(m.Topic(), sysPrefix) {
		s.sys(m.Topic(), m.Payload(), m.Retained())
		return
	}
	if topic, ok := strings.CutSuffix(m.Topic(), control.ResponseSuffix); ok {
		s.pending.answer(topic, m.Payload())
	}
}

// subscribe subscribes to a topic and waits for SUBACK. If the broker refuses it returns
// errNotAllowed, unlike the library.
func (s *session) subscribe(ctx context.Context, topic string) error {
	token := s.client.Subscribe(topic, 0, nil).(*mqtt.SubscribeToken)
	select {
	case <-token.Done():
	case <-s.lost:
		return errors.Join(errLost, s.err)
	case <-ctx.Done():
		return errUnconfirmed
	}
	if err := token.Error(); err != nil {
		return errors.Join(errLost, err)
	}
	if code, ok := token.Result()[topic]; !ok || code == refusedSubscription {
		return errNotAllowed
	}
	return nil
}

// subscribeOnce subscribes to a topic on first use.
func (s *session) subscribeOnce(ctx context.Context, topic string) error {
	if s.subscribed.has(topic) {
		return nil
	}
	if err := s.subscribe(ctx, topic); err != nil {
		return err
	}
	s.subscribed.add(topic)
	return nil
}

// refusedSubscription is the return code for failure in SUBACK [MQTT-3.9.3-2].
const refusedSubscription = 0x80

// end records that the connection has ended; the first reason counts.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.err = why
		close(s.lost)
	})
}

// ended reports whether the session has ended.
func (s *session) ended() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// Timeouts of the library: for disconnecting, and for ending after the connection was closed.
const (
	goodbye = 250 * time.Millisecond
	ending  = 2 * time.Second
)

// close ends the session and waits for its goroutines. If the connection was closed first, the
// library would not notice.
func (s *session) close() {
	s.end(errClosed)
	impatient := time.AfterFunc(goodbye, func() { s.conn.Close() })
	defer impatient.Stop()
	s.client.Disconnect(uint(ending.Milliseconds()))
	s.conn.Close()
	s.wg.Wait()
}
