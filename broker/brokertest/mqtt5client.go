package brokertest

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/scripts/suite"
)

// mqtt5Client is an MQTT 5 client with the admin's rights. It exposes the properties of
// messages.
type mqtt5Client struct {
	name   string
	client *paho.Client

	mu    sync.Mutex // guards inbox
	inbox []*paho.Publish
}

// mqtt5Client connects a client that receives what is published to the filters from now on, with the
// QoS and the RETAIN flag of the publisher.
func (s *fixture) mqtt5Client(t *testing.T, filters ...string) *mqtt5Client {
	t.Helper()
	u, err := url.Parse(s.URL)
	must(t, err)
	conn, err := net.DialTimeout("tcp", u.Host, suite.HangLimit)
	must(t, err)
	p := &mqtt5Client{name: s.name("station")}
	p.client = paho.NewClient(paho.ClientConfig{Conn: conn, PacketTimeout: suite.HangLimit,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){p.take}})
	_, err = p.client.Connect(t.Context(), &paho.Connect{ClientID: p.name, CleanStart: true,
		UsernameFlag: true, Username: s.AdminUsername, PasswordFlag: true, Password: []byte(s.AdminPassword)})
	must(t, err)
	t.Cleanup(func() {
		p.client.Disconnect(&paho.Disconnect{}) //nolint:errcheck // the connection may be closed already
	})
	p.subscribe(t, append(filters, p.mark())...)
	return p
}

// mark is the topic of messages to itself, which show that everything sent before has arrived.
func (p *mqtt5Client) mark() string { return "mark/" + p.name }

// subscribe subscribes to filters, all of which must be granted.
func (p *mqtt5Client) subscribe(t *testing.T, filters ...string) {
	t.Helper()
	request := &paho.Subscribe{}
	for _, f := range filters {
		request.Subscriptions = append(request.Subscriptions, paho.SubscribeOptions{Topic: f, QoS: 2, RetainAsPublished: true})
	}
	if _, err := p.client.Subscribe(t.Context(), request); err != nil {
		t.Fatalf("subscribe to %q: %v", filters, err)
	}
}

func (p *mqtt5Client) take(r paho.PublishReceived) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbox = append(p.inbox, r.Packet)
	return true, nil
}

// send publishes a message and waits for the acknowledgement.
func (p *mqtt5Client) send(t *testing.T, m *paho.Publish) {
	t.Helper()
	if _, err := p.client.Publish(t.Context(), m); err != nil {
		t.Fatalf("publish to %q: %v", m.Topic, err)
	}
}

// publish publishes texts with QoS 1.
func (p *mqtt5Client) publish(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		p.send(t, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload)})
	}
}

// burst publishes many messages and waits only for the acknowledgement of the last: then the
// broker has all of them.
func (p *mqtt5Client) burst(t *testing.T, messages []*paho.Publish) {
	t.Helper()
	for _, m := range messages[:len(messages)-1] {
		if _, err := p.client.PublishWithOptions(t.Context(), m, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend}); err != nil {
			t.Fatalf("publish to %q: %v", m.Topic, err)
		}
	}
	p.send(t, messages[len(messages)-1])
}

// got returns the received messages of a topic.
func (p *mqtt5Client) got(topic string) (messages []*paho.Publish) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.inbox {
		if m.Topic == topic {
			messages = append(messages, m)
		}
	}
	return messages
}

// texts returns the payloads of the received messages of a topic.
func (p *mqtt5Client) texts(topic string) []string {
	texts := []string{}
	for _, m := range p.got(topic) {
		texts = append(texts, string(m.Payload))
	}
	return texts
}

// collect waits until n messages of a topic have arrived, and messages sent after them would have
// arrived too, and removes them from the inbox.
func (p *mqtt5Client) collect(t *testing.T, topic string, n int) []*paho.Publish {
	t.Helper()
	defer func() {
		if t.Failed() {
			came := p.texts(topic)
			t.Logf("%d came, among the last of them %q", len(came), came[max(0, len(came)-20):])
		}
	}()
	WaitFor(t, fmt.Sprintf("%d messages have come to %s", n, topic), func() bool { return len(p.got(topic)) >= n })
	p.passMark(t)
	all := p.got(topic)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbox = slices.DeleteFunc(p.inbox, func(m *paho.Publish) bool { return m.Topic == topic })
	return all
}

// passMark returns when everything that was sent to the client before has arrived. The mark has
// a QoS above 0, as others might be overtaken.
func (p *mqtt5Client) passMark(t *testing.T) {
	t.Helper()
	before := len(p.got(p.mark()))
	p.publish(t, p.mark(), "mark")
	WaitFor(t, "a mark has come back", func() bool { return len(p.got(p.mark())) > before })
}
