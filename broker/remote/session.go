package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/dial"
)

// session is one MQTT connection from its CONNECT to its end; the next one is
// another session. Its goroutines end with it. Close waits for all but the
// sender, which the library may hold up for a while and the broker waits for.
type session struct {
	client  mqtt.Client
	wire    *wire
	pending *pending
	out     chan *call // to the sender; full, callers wait as long as their context
	sys     func(topic string, payload []byte)
	offered *offer

	may judge // by the rights that this service's user had when the session began

	second bool // there may be other connections beside; singleConnection.checking guards it

	listening nameSet // topics beside those that every session subscribes to

	lost chan struct{} // closed when the connection has ended, for whatever reason
	once sync.Once     // guards the closing of lost
	err  error         // why it ended; to be read after lost

	wg sync.WaitGroup
}

// maxQueued is how many commands may wait for their turn to be sent.
const maxQueued = 64

// connect opens a connection and logs in, within the time for that.
func (b *Broker) connect(ctx context.Context) (*session, *failure) {
	ctx, cancel := context.WithTimeout(ctx, b.timing.connect)
	defer cancel()
	var certWanted atomic.Bool
	conn, f := b.endpoint.Open(ctx, &certWanted)
	if f != nil {
		return nil, f
	}
	s := b.newSession(conn)
	if err := s.logIn(ctx, b.clientOptions()); err != nil {
		return nil, &failure{Stage: dial.StageConnect, CertWanted: certWanted.Load(), Err: loginRefused(err)}
	}
	b.wg.Go(s.send)
	return s, nil
}

func (b *Broker) newSession(conn net.Conn) *session {
	s := &session{
		wire:    newWire(conn, 1, b.timing.write, b.log),
		pending: newPending(b.instance),
		out:     make(chan *call, maxQueued),
		sys:     b.sys.put,
		lost:    make(chan struct{}),
		offered: &offer{made: b.madeUp()},
		may:     anything,
	}
	s.offered.add(broker.CapMessages) // which need no plugin
	s.offered.isSingle(b.single.why.Load())
	return s
}

// clientOptions are the settings of the MQTT library that are the same for
// every session. It is to connect once and to speak MQTT 3.1.1 only: with its
// own ways of trying again a refused log-in counts twice at the broker, and
// commands might be sent twice.
func (b *Broker) clientOptions() *mqtt.ClientOptions {
	return mqtt.NewClientOptions().
		AddBroker("tcp://broker"). // it wants one, but the connection is there already
		SetClientID(clientID()).
		SetUsername(b.username).
		SetPassword(string(b.password)).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetAutoReconnect(false).
		SetConnectRetry(false).
		SetKeepAlive(keepAlive * time.Second).
		SetPingTimeout(10 * time.Second).
		SetWriteTimeout(5 * time.Second) // for handing over to the library's writer
}

// keepAlive is the longest silence, in seconds, that is announced to a broker.
const keepAlive = 30

// clientID makes a client id that nobody else has.
func clientID() string { return "signalbox-" + rand.Text()[:13] }

// logIn sends CONNECT and waits for the CONNACK. When it returns an error the
// connection is closed.
func (s *session) logIn(ctx context.Context, o *mqtt.ClientOptions) error {
	o.SetCustomOpenConnectionFn(s.handOver)
	o.SetDefaultPublishHandler(s.receive)
	o.SetConnectionLostHandler(func(_ mqtt.Client, err error) { s.end(err) })
	if deadline, ok := ctx.Deadline(); ok {
		o.SetConnectTimeout(time.Until(deadline))
	}
	s.client = mqtt.NewClient(o)
	stop := context.AfterFunc(ctx, func() { s.wire.Close() })
	token := s.client.Connect()
	<-token.Done()
	err := token.Error()
	inTime := stop()
	switch {
	case !inTime && err == nil:
		s.close()
		return ctx.Err()
	case !inTime:
		err = ctx.Err() // and not that the connection was closed then
	}
	if err != nil {
		s.wire.Close()
	}
	return err
}

// handOver gives the library the connection that was opened for it.
func (s *session) handOver(*url.URL, mqtt.ClientOptions) (net.Conn, error) { return s.wire, nil }

// receive sorts what the broker sends. The library reads on only when it
// returns, so it never waits.
func (s *session) receive(_ mqtt.Client, m mqtt.Message) {
	defer s.wire.fences.handle()
	if strings.HasPrefix(m.Topic(), sysPrefix) {
		s.sys(m.Topic(), m.Payload())
		return
	}
	if topic, ok := strings.CutSuffix(m.Topic(), control.ResponseSuffix); ok {
		s.pending.answer(topic, m.Payload())
	}
}

// subscribe subscribes to a topic and waits for the outcome. Where the broker
// refuses, the error is errNotAllowed; to the library that is no error.
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

// listen subscribes to a topic that not every session subscribes to, once.
func (s *session) listen(ctx context.Context, topic string) error {
	if s.listening.has(topic) {
		return nil
	}
	if err := s.subscribe(ctx, topic); err != nil {
		return err
	}
	s.listening.add(topic)
	return nil
}

// refusedSubscription is the return code of a SUBACK that means no [MQTT-3.9.3-2].
const refusedSubscription = 0x80

// end tells everybody that the connection has ended; the first reason counts.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.err = why
		close(s.lost)
	})
}

// over tells whether the session has ended.
func (s *session) over() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

// How long the library has for saying goodbye, and for ending altogether once
// the connection is closed under it.
const (
	goodbye = 250 * time.Millisecond
	ending  = 2 * time.Second
)

// close ends the session and waits for its goroutines. Closing the connection
// first would leave the library unaware of its end.
func (s *session) close() {
	s.end(errClosed)
	impatient := time.AfterFunc(goodbye, func() { s.wire.Close() })
	defer impatient.Stop()
	s.client.Disconnect(uint(ending.Milliseconds()))
	s.wire.Close()
	s.wg.Wait()
}
