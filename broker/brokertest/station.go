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

// station is an MQTT 5 client of a test, with the admin's rights. It shows
// what a message of MQTT 5 has beside its payload.
type station struct {
	name   string
	client *paho.Client

	mu    sync.Mutex // guards inbox
	inbox []*paho.Publish
}

// station connects one that receives what is published to the filters from now
// on, with the QoS and the RETAIN flag that the broker was given.
func (s *scene) station(t *testing.T, filters ...string) *station {
	t.Helper()
	u, err := url.Parse(s.URL)
	must(t, err)
	conn, err := net.DialTimeout("tcp", u.Host, suite.HangLimit)
	must(t, err)
	p := &station{name: s.name("station")}
	p.client = paho.NewClient(paho.ClientConfig{Conn: conn, PacketTimeout: suite.HangLimit,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){p.take}})
	_, err = p.client.Connect(t.Context(), &paho.Connect{ClientID: p.name, CleanStart: true,
		UsernameFlag: true, Username: s.AdminUsername, PasswordFlag: true, Password: []byte(s.AdminPassword)})
	must(t, err)
	t.Cleanup(func() {
		p.client.Disconnect(&paho.Disconnect{}) //nolint:errcheck // the broker may be gone; the client is over either way
	})
	p.subscribe(t, append(filters, p.mark())...)
	return p
}

// mark is where the station publishes to itself, to see that all that was sent
// to it before has come.
func (p *station) mark() string { return "mark/" + p.name }

// subscribe asks for filters, all of which must be granted.
func (p *station) subscribe(t *testing.T, filters ...string) {
	t.Helper()
	request := &paho.Subscribe{}
	for _, f := range filters {
		request.Subscriptions = append(request.Subscriptions, paho.SubscribeOptions{Topic: f, QoS: 2, RetainAsPublished: true})
	}
	if _, err := p.client.Subscribe(t.Context(), request); err != nil {
		t.Fatalf("subscribe to %q: %v", filters, err)
	}
}

func (p *station) take(r paho.PublishReceived) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inbox = append(p.inbox, r.Packet)
	return true, nil
}

// send publishes a message and waits until the broker has it in its charge.
func (p *station) send(t *testing.T, m *paho.Publish) {
	t.Helper()
	if _, err := p.client.Publish(t.Context(), m); err != nil {
		t.Fatalf("publish to %q: %v", m.Topic, err)
	}
}

// publish sends text with QoS 1.
func (p *station) publish(t *testing.T, topic string, payloads ...string) {
	t.Helper()
	for _, payload := range payloads {
		p.send(t, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload)})
	}
}

// burst publishes many messages without waiting for each, but for the last: when
// that is acknowledged, the broker has them all.
func (p *station) burst(t *testing.T, messages []*paho.Publish) {
	t.Helper()
	for _, m := range messages[:len(messages)-1] {
		if _, err := p.client.PublishWithOptions(t.Context(), m, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend}); err != nil {
			t.Fatalf("publish to %q: %v", m.Topic, err)
		}
	}
	p.send(t, messages[len(messages)-1])
}

// got lists the messages of a topic that came so far.
func (p *station) got(topic string) (messages []*paho.Publish) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.inbox {
		if m.Topic == topic {
			messages = append(messages, m)
		}
	}
	return messages
}

// texts are the payloads of the messages of a topic that came so far.
func (p *station) texts(topic string) []string {
	texts := []string{}
	for _, m := range p.got(topic) {
		texts = append(texts, string(m.Payload))
	}
	return texts
}

// collect waits until n messages of a topic have come and what was sent behind
// them would have come too, and takes them all out of the inbox.
func (p *station) collect(t *testing.T, topic string, n int) []*paho.Publish {
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

// passMark returns when everything that was sent to the station before has
// come. The mark has a QoS, as those without may overtake others.
func (p *station) passMark(t *testing.T) {
	t.Helper()
	before := len(p.got(p.mark()))
	p.publish(t, p.mark(), "mark")
	WaitFor(t, "a mark has come back", func() bool { return len(p.got(p.mark())) > before })
}
