package brokertest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// identity is what a device sends in CONNECT. Without a username it is anonymous.
type identity struct {
	username string
	password broker.Secret
	clientID string
	will     string // topic of a Will, whose payload is the topic
}

// keepAlive is so long that no ping is due during a test, which would need a timely response.
const keepAlive = 10 * time.Hour

// message is what a device received.
type message struct{ topic, payload string }

// device is an MQTT 3.1.1 client of a test.
type device struct {
	username string
	clientID string
	client   mqtt.Client
	lost     chan struct{} // closed when the broker has closed the connection

	mu    sync.Mutex // guards the fields below
	inbox []message
	conn  net.Conn
}

// connect logs in. The error is the broker's refusal; any other failure fails the test.
func (s *fixture) connect(t *testing.T, who identity) (*device, error) {
	t.Helper()
	if who.clientID == "" {
		who.clientID = s.name("device")
	}
	d := &device{username: who.username, clientID: who.clientID, lost: make(chan struct{})}
	d.client = mqtt.NewClient(d.options(s.URL, who))
	token := d.client.Connect()
	wait(t, token, "connect")
	if err := token.Error(); err != nil {
		if !errors.Is(err, packets.ErrorRefusedNotAuthorised) {
			t.Fatalf("connect as %q: %v; the only refusal there is: %v", who.username, err, packets.ErrorRefusedNotAuthorised)
		}
		return nil, err
	}
	t.Cleanup(func() { d.client.Disconnect(0) })
	return d, nil
}

func (d *device) options(url string, who identity) *mqtt.ClientOptions {
	o := mqtt.NewClientOptions().AddBroker(url).SetClientID(who.clientID).
		SetProtocolVersion(4).SetAutoReconnect(false).SetConnectRetry(false).
		SetKeepAlive(keepAlive).
		SetConnectTimeout(suite.HangLimit).SetWriteTimeout(suite.HangLimit).
		SetOrderMatters(true).SetDefaultPublishHandler(d.take).
		SetConnectionLostHandler(func(mqtt.Client, error) { close(d.lost) }).
		SetCustomOpenConnectionFn(d.dial)
	if who.username != "" {
		o.SetUsername(who.username).SetPassword(string(who.password))
	}
	if who.will != "" {
		o.SetWill(who.will, who.will, 0, false)
	}
	return o
}

// dial stores the connection, so that drop can close it without DISCONNECT.
func (d *device) dial(u *url.URL, _ mqtt.ClientOptions) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", u.Host, suite.HangLimit)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = conn
	return conn, err
}

// drop closes the connection without DISCONNECT, so that the broker publishes the Will.
func (d *device) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn.Close()
}

func (d *device) take(_ mqtt.Client, m mqtt.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inbox = append(d.inbox, message{m.Topic(), string(m.Payload())})
}

// received returns the received messages.
func (d *device) received() []message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]message(nil), d.inbox...)
}

// has reports whether a message with this payload was received.
func (d *device) has(payload string) bool {
	for _, m := range d.received() {
		if m.payload == payload {
			return true
		}
	}
	return false
}

// publish sends a message with QoS 1 and waits for its acknowledgement, which an MQTT 3.1.1
// client also receives for a refused message.
func (d *device) publish(t *testing.T, topic, payload string, retained bool) {
	t.Helper()
	token := d.client.Publish(topic, 1, retained, payload)
	wait(t, token, "publish")
	if err := token.Error(); err != nil {
		t.Fatalf("%s publishes to %q: %v", d.username, topic, err)
	}
}

// subscribe subscribes to a filter. It reports whether that was granted.
func (d *device) subscribe(t *testing.T, filter string) bool {
	t.Helper()
	token := d.client.Subscribe(filter, 1, nil).(*mqtt.SubscribeToken)
	wait(t, token, "subscribe")
	for _, code := range token.Result() { // there is one, under the filter without its $share
		return code != 0x80
	}
	t.Fatalf("%s subscribes to %q: %v", d.username, filter, token.Error())
	return false
}

// unsubscribe waits for the acknowledgement, which in MQTT 3.1.1 cannot report a refusal.
func (d *device) unsubscribe(t *testing.T, filter string) {
	t.Helper()
	token := d.client.Unsubscribe(filter)
	wait(t, token, "unsubscribe")
	if err := token.Error(); err != nil {
		t.Fatalf("%s unsubscribes from %q: %v", d.username, filter, err)
	}
}

// isCutOff waits until the broker has closed the connection.
func (d *device) isCutOff(t *testing.T) {
	t.Helper()
	select {
	case <-d.lost:
	case <-time.After(suite.HangLimit):
		t.Fatalf("%s is still connected", d.username)
	}
}

// isConnected checks that the broker still serves the connection.
func (d *device) isConnected(t *testing.T) {
	t.Helper()
	token := d.client.Publish("any/thing", 1, false, "")
	wait(t, token, "publish")
	if err := token.Error(); err != nil {
		t.Fatalf("%s was cut off: %v", d.username, err)
	}
}

func wait(t *testing.T, token mqtt.Token, what string) {
	t.Helper()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatalf("%s: the broker does not answer", what)
	}
}

// login connects a client of the fixture, which must succeed.
func (s *fixture) login(t *testing.T, username string) *device {
	t.Helper()
	d, err := s.connect(t, identity{username: username, password: password(username)})
	if err != nil {
		t.Fatalf("%s does not get in: %v", username, err)
	}
	return d
}

// wantRefused checks that the broker refuses the connection.
func (s *fixture) wantRefused(t *testing.T, who identity) {
	t.Helper()
	if _, err := s.connect(t, who); err == nil {
		t.Fatalf("%q gets in as %q, and must not", who.username, who.clientID)
	}
}

// admin connects the admin, subscribed to everything, so that it receives whatever the broker
// permits.
func (s *fixture) admin(t *testing.T) *device {
	t.Helper()
	d, err := s.connect(t, identity{username: s.AdminUsername, password: s.AdminPassword})
	if err != nil {
		t.Fatalf("the admin does not get in: %v", err)
	}
	if !d.subscribe(t, "#") {
		t.Fatal("the admin may not subscribe to #")
	}
	return d
}

// mark is a topic that every device of a case may use. When a message arrives there, earlier
// messages would have arrived.
const mark = "mark"

func markRights() []broker.ACL {
	return []broker.ACL{
		allow(broker.PublishClientSend, mark),
		allow(broker.PublishClientReceive, mark),
		allow(broker.SubscribeLiteral, mark),
	}
}

// device creates a client with a role of these ACLs and those for mark, and connects it.
func (s *fixture) device(t *testing.T, acls ...broker.ACL) *device {
	t.Helper()
	return s.login(t, s.client(t, s.role(t, append(markRights(), acls...)...)))
}

// getsThrough reports whether a message from one device reaches another. Both may use mark; the
// receiver is subscribed to it.
func (s *fixture) getsThrough(t *testing.T, from, to *device, topic string) bool {
	t.Helper()
	payload := s.name("to " + topic)
	from.publish(t, topic, payload, false)
	s.passMark(t, from, to)
	return to.has(payload)
}

// passMark returns when everything that was sent before has arrived.
func (s *fixture) passMark(t *testing.T, from, to *device) {
	t.Helper()
	payload := s.name("mark")
	from.publish(t, mark, payload, false)
	WaitFor(t, fmt.Sprintf("%s has got %q from %s", to.username, payload, from.username),
		func() bool { return to.has(payload) })
}
