package conformance

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/scripts/suite"
)

// url returns the URL of a scene's broker for client libraries.
func (s *scene) url() string {
	if s.ws {
		return "ws://" + s.subject.ws + "/mqtt"
	}
	return "mqtt://" + s.subject.tcp
}

// inbox collects what a client of a library receives. Its buffer is large enough for every
// test, so that the library never blocks on it.
type inbox struct {
	messages chan string
	had      *sync.Map // all of them
}

func newInbox() inbox { return inbox{make(chan string, 1000), &sync.Map{}} }

// put adds a message, unless it may have been received on an earlier connection, and was: a
// client that disconnects may have received it without acknowledging it.
func (in inbox) put(message string, duplicate bool) {
	if _, had := in.had.LoadOrStore(message, true); !had || !duplicate {
		in.messages <- message
	}
}

// want expects messages in their order.
func (in inbox) want(s *scene, messages ...string) {
	s.Helper()
	for _, want := range messages {
		select {
		case got := <-in.messages:
			if got != want {
				s.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(suite.HangLimit):
			s.Fatalf("timed out waiting for %q", want)
		}
	}
}

// TestClientPaho uses Eclipse's Go client for MQTT 3.1 and 3.1.1: every QoS in both
// directions, retained messages, a session that is resumed, and a Will.
func TestClientPaho(t *testing.T) {
	play(t, beforeFive, func(s *scene) {
		in := newInbox()
		id := s.id("paho")
		receiver := s.paho(id, in, func(o *mqtt.ClientOptions) { o.SetCleanSession(false) })
		s.settle(receiver.Subscribe(s.topic("#"), 2, nil))
		sender := s.paho(s.id("sender"), newInbox(), func(o *mqtt.ClientOptions) {
			o.SetWill(s.topic("will"), "gone", 1, false)
		})
		for qos := range byte(3) {
			s.settle(sender.Publish(s.topic("x"), qos, false, fmt.Sprint("qos ", qos)))
		}
		in.want(s, s.topic("x")+" qos 0", s.topic("x")+" qos 1", s.topic("x")+" qos 2")
		s.settle(sender.Publish(s.topic("kept"), 1, true, "kept"))
		in.want(s, s.topic("kept")+" kept")

		receiver.Disconnect(100)
		for i := range 50 {
			s.settle(sender.Publish(s.topic("away"), byte(1+i%2), false, fmt.Sprint(i)))
		}
		back := s.paho(id, in, func(o *mqtt.ClientOptions) { o.SetCleanSession(false) })
		for i := range 50 {
			in.want(s, s.topic("away")+fmt.Sprint(" ", i))
		}
		s.settle(back.Unsubscribe(s.topic("#")))
		s.settle(back.Subscribe(s.topic("+"), 1, nil))
		in.want(s, s.topic("kept")+" kept")
		s.settle(sender.Publish(s.topic("last"), 0, false, "after the retained one"))
		in.want(s, s.topic("last")+" after the retained one")
	})
}

// paho connects a client of that library.
func (s *scene) paho(id string, in inbox, change func(*mqtt.ClientOptions)) mqtt.Client {
	s.Helper()
	var came sync.Map // on this connection, where nothing may be repeated
	o := mqtt.NewClientOptions().AddBroker(s.url()).SetClientID(id).SetProtocolVersion(uint(s.version)).
		SetAutoReconnect(false).SetConnectTimeout(suite.HangLimit).SetPingTimeout(suite.HangLimit).SetOrderMatters(true).
		SetDefaultPublishHandler(func(_ mqtt.Client, m mqtt.Message) {
			text := m.Topic() + " " + string(m.Payload())
			_, here := came.LoadOrStore(text, true)
			in.put(text, m.Duplicate() && !here)
		})
	change(o)
	c := mqtt.NewClient(o)
	s.settle(c.Connect())
	s.Cleanup(func() { c.Disconnect(100) })
	return c
}

// settle waits until a request has succeeded.
func (s *scene) settle(token mqtt.Token) {
	s.Helper()
	if !token.WaitTimeout(suite.HangLimit) {
		s.Fatal("no answer")
	}
	if err := token.Error(); err != nil {
		s.Fatal(err)
	}
}

// TestClientPahoFive does the same with Eclipse's Go client for MQTT 5, and responds to a
// request by its properties.
func TestClientPahoFive(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		in := newInbox()
		answered := make(chan struct{}, 3) // a client that is closed during a QoS 2 exchange panics
		responder := s.pahoFive(s.id("responder"), func(c *autopaho.ConnectionManager, m *paho.Publish) {
			if m.Properties.ResponseTopic == "" {
				return
			}
			answer := &paho.Publish{Topic: m.Properties.ResponseTopic, QoS: m.QoS, Payload: append([]byte("re: "), m.Payload...),
				Properties: &paho.PublishProperties{CorrelationData: m.Properties.CorrelationData, User: m.Properties.User}}
			go func() {
				c.Publish(s.Context(), answer) //nolint:errcheck // the test checks whether it arrived
				answered <- struct{}{}
			}()
		}, nil)
		requester := s.pahoFive(s.id("requester"), func(_ *autopaho.ConnectionManager, m *paho.Publish) {
			in.put(fmt.Sprintf("%s %s %s %v", m.Topic, m.Payload, m.Properties.CorrelationData, m.Properties.User), false)
		}, nil)
		s.subscribeFive(responder, paho.SubscribeOptions{Topic: "$share/responders/" + s.topic("ask"), QoS: 2})
		s.subscribeFive(requester, paho.SubscribeOptions{Topic: s.topic("answer"), QoS: 2, NoLocal: true})
		for qos := range byte(3) {
			question := &paho.Publish{Topic: s.topic("ask"), QoS: qos, Payload: []byte("why?"),
				Properties: &paho.PublishProperties{ResponseTopic: s.topic("answer"), CorrelationData: []byte{'#', '0' + qos},
					User: paho.UserProperties{{Key: "k", Value: "v"}, {Key: "k", Value: "w"}}}}
			if _, err := requester.Publish(s.Context(), question); err != nil {
				s.Fatal(err)
			}
			in.want(s, fmt.Sprintf("%s re: why? #%d [{k v} {k w}]", s.topic("answer"), qos))
			<-answered
		}
	})
}

// TestClientPahoFiveReconnects cuts the connection of a client with a persistent session:
// it reconnects by itself and receives everything, in order and once.
func TestClientPahoFiveReconnects(t *testing.T) {
	play(t, onlyFive, func(s *scene) {
		in := newInbox()
		receiver := s.pahoFive(s.id("receiver"), func(_ *autopaho.ConnectionManager, m *paho.Publish) {
			in.put(string(m.Payload), false)
		}, func(c *autopaho.ClientConfig) { c.SessionExpiryInterval = 3600 })
		s.subscribeFive(receiver, paho.SubscribeOptions{Topic: s.topic("x"), QoS: 2})
		sender := s.pahoFive(s.id("sender"), nil, nil)
		const rounds, each = 5, 20
		for round := range rounds {
			for i := range each {
				m := &paho.Publish{Topic: s.topic("x"), QoS: 2, Payload: fmt.Append(nil, round*each+i)}
				if _, err := sender.Publish(s.Context(), m); err != nil {
					s.Fatal(err)
				}
			}
			receiver.TerminateConnectionForTest()
		}
		for i := range rounds * each {
			in.want(s, fmt.Sprint(i))
		}
	})
}

// pahoFive connects a client of that library, which reconnects at once.
func (s *scene) pahoFive(id string, take func(*autopaho.ConnectionManager, *paho.Publish), change func(*autopaho.ClientConfig)) *autopaho.ConnectionManager {
	s.Helper()
	server, err := url.Parse(s.url())
	if err != nil {
		s.Fatal(err)
	}
	var manager *autopaho.ConnectionManager
	connected := make(chan struct{})
	cfg := autopaho.ClientConfig{ServerUrls: []*url.URL{server}, KeepAlive: 600, ConnectTimeout: suite.HangLimit,
		ReconnectBackoff: autopaho.NewConstantBackoff(10 * time.Millisecond),
		ClientConfig: paho.ClientConfig{ClientID: id, PacketTimeout: suite.HangLimit,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
				<-connected
				if take != nil {
					take(manager, p.Packet)
				}
				return true, nil
			}}}}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	manager, err = autopaho.NewConnection(ctx, cfg)
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	close(connected)
	s.Cleanup(func() {
		manager.Disconnect(ctx) //nolint:errcheck // it may be between two connections
		cancel()
		<-manager.Done()
	})
	if err := manager.AwaitConnection(s.soon()); err != nil {
		s.Fatal(err)
	}
	return manager
}

func (s *scene) subscribeFive(c *autopaho.ConnectionManager, options paho.SubscribeOptions) {
	s.Helper()
	if _, err := c.Subscribe(s.soon(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{options}}); err != nil {
		s.Fatal(err)
	}
}

// soon returns a context that ends after suite.HangLimit.
func (s *scene) soon() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), suite.HangLimit)
	s.Cleanup(cancel)
	return ctx
}
