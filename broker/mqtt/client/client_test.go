package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// modes maps the names of the two modes to whether MQTT 5 is used.
var modes = map[string]bool{"identified": true, "separate": false}

// inBothModes runs a test in both modes, with a Mosquitto of its own.
func inBothModes(t *testing.T, test func(t *testing.T, server *brokertest.Server, o Options, five bool)) {
	t.Parallel()
	for name, five := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t)
			addr := server.Addr
			if !five {
				addr = brokertest.Only311(t, server.Addr, false)
			}
			test(t, server, options(server, addr), five)
		})
	}
}

// TestExactlyOnce delivers each message to each consumer once and in order, however the
// filters overlap.
func TestExactlyOnce(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		filters := []string{"#", "a/#", "a/+", "+/b", "a/b", "a/b", "+/+/c", "b"}
		f, _ := run(t, o)
		sinks := make([]*sink, len(filters))
		for i, filter := range filters {
			sinks[i], _ = take(f, filter, i%2 == 0)
		}
		waitSubscribed(t, f)
		settleAll := func() {
			for _, s := range sinks {
				s.settle()
			}
		}
		p := join(t, server)
		topics := []string{"a/b", "a/c", "b", "a/b/c", "x/y/c", "end"}
		for i := range 20 {
			for _, topic := range topics {
				p.send(&paho.Publish{Topic: topic, Payload: fmt.Appendf(nil, "%s %d", topic, i), QoS: byte(i % 3)})
			}
			settleAll()
		}
		p.publish("end", "end")
		brokertest.WaitFor(t, "the last message is taken", func() bool {
			settleAll()
			return slices.Contains(sinks[0].payloads(), "end")
		})
		for i, filter := range filters {
			var want []string
			for n := range 20 {
				for _, topic := range topics {
					if matches(filter, topic) {
						want = append(want, fmt.Sprintf("%s %d", topic, n))
					}
				}
			}
			if filter == "#" {
				want = append(want, "end")
			}
			brokertest.WaitFor(t, filter+" has all", func() bool { return len(sinks[i].list()) >= len(want) })
			got := sinks[i].payloads()
			slices.Sort(got) // messages of different QoS are not ordered
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", filter, got, want)
			}
		}
		if five != (f.mode == modeIdentified) {
			t.Errorf("the mode is %d", f.mode)
		}
	})
}

// TestProperties forwards properties except RETAIN, and reports the expiry.
func TestProperties(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	f, _ := run(t, options(server, server.Addr))
	p := join(t, server)
	p.send(&paho.Publish{Topic: "a", Payload: []byte("before"), QoS: 1, Retain: true})
	s, _ := take(f, "a", false)
	waitSubscribed(t, f)
	format, expiry := byte(1), uint32(100)
	p.send(&paho.Publish{Topic: "a", Payload: []byte("live"), QoS: 2, Retain: true, Properties: &paho.PublishProperties{
		PayloadFormat: &format, MessageExpiry: &expiry, ContentType: "text/plain", ResponseTopic: "answer", CorrelationData: []byte("\x00\xff"),
		User: paho.UserProperties{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}, {Key: "a", Value: "0"}},
	}})
	s.want(t, "live")
	m := s.list()[0]
	if left := m.ExpiresAt - m.At; m.QoS != 2 || m.Topic != "a" || left < 90_000 || left > 100_000 || m.At == 0 {
		t.Errorf("got %+v", m)
	}

	p.subscribe("out")
	m.Topic = "out"
	if done, refused, err := f.Publish(t.Context(), []messaging.Message{m}); done != 1 || refused != 0 || err != nil {
		t.Fatalf("Publish() = %d, %d, %v", done, refused, err)
	}
	got := p.next()
	if q := got.Properties; got.Retain || got.QoS != 2 || string(got.Payload) != "live" || *q.PayloadFormat != 1 || *q.MessageExpiry > 100 ||
		q.ContentType != "text/plain" || q.ResponseTopic != "answer" || string(q.CorrelationData) != "\x00\xff" ||
		!slices.Equal(q.User, paho.UserProperties{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}, {Key: "a", Value: "0"}}) {
		t.Errorf("got %+v, %+v", got, q)
	}
}

// TestV311 forwards messages without properties over MQTT 3.1.1, and ignores retained ones.
func TestV311(t *testing.T) {
	t.Parallel()
	for _, hangUp := range []bool{false, true} {
		server := brokertest.Mosquitto(t)
		f, _ := run(t, options(server, brokertest.Only311(t, server.Addr, hangUp)))
		p := join(t, server)
		p.send(&paho.Publish{Topic: "a", Payload: []byte("before"), QoS: 1, Retain: true})
		s, _ := take(f, "a", true)
		brokertest.WaitFor(t, "it is connected", func() bool { waitSubscribed(t, f); return f.Reached() == nil && !f.subscribers[0].failing() })
		p.publish("a", "live")
		s.want(t, "live")
		s.settle()
		p.subscribe("out")
		m := s.list()[0]
		for qos := range byte(3) {
			m.Topic, m.QoS, m.Properties = "out", qos, []byte("\x01\x01")
			if done, _, err := f.Publish(t.Context(), []messaging.Message{m}); done != 1 || err != nil {
				t.Fatalf("Publish() = %d, %v", done, err)
			}
			if got := p.next(); got.QoS != qos || got.Properties.PayloadFormat != nil || string(got.Payload) != "live" {
				t.Errorf("got %+v", got)
			}
		}
	}
}

// TestAcknowledgedWhenCommitted acknowledges messages only when they are committed.
func TestAcknowledgedWhenCommitted(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		f, _ := run(t, o)
		s, _ := take(f, "a", true)
		waitSubscribed(t, f)
		p := join(t, server)
		window := 20 // Mosquitto's limit
		if five {
			window = receiveMaximum
		}
		many := window + 30
		for i := range many {
			p.send(&paho.Publish{Topic: "a", Payload: fmt.Append(nil, i), QoS: byte(1 + i%2)})
		}
		brokertest.WaitFor(t, "the window is full", func() bool { return len(s.list()) == window })
		p.publish("fence", "")
		if n := len(s.list()); n != window {
			t.Fatalf("%d messages came, of which none is acknowledged", n)
		}
		brokertest.WaitFor(t, "all have come", func() bool { s.settle(); return len(s.list()) == many })
		got := s.payloads()
		for i := range many {
			if got[i] != fmt.Sprint(i) {
				t.Fatalf("got %q", got)
			}
		}
	})
}

// TestRefusedSubscription reports a refused subscription, continues with the others and
// retries.
func TestRefusedSubscription(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		var log logBuffer
		o.Log, o.Timing.Retry = slog.New(slog.NewTextHandler(&log, nil)), 20*time.Millisecond
		o.Username, o.Password = restrict(t, server)
		f, _ := run(t, o)
		all, _ := take(f, "#", false)
		own, _ := take(f, "a/b", false)
		brokertest.WaitFor(t, "the refusal is known", func() bool { return f.Refused("#") })
		if !log.has("subscription refused") {
			t.Error("the refusal is not logged")
		}
		brokertest.WaitFor(t, "the other is not refused", func() bool { return !f.Refused("a/b") })
		p := join(t, server)
		brokertest.WaitFor(t, "the other gets its messages", func() bool { p.publish("a/b", "x"); return len(own.list()) > 0 })
		if len(all.list()) > 0 {
			t.Errorf("got %q", all.payloads())
		}
		allow(t, server)
		brokertest.WaitFor(t, "it is granted after all", func() bool { p.publish("c", "y"); return len(all.list()) > 0 })
		brokertest.WaitFor(t, "it is known to be granted", func() bool { return !f.Refused("#") })
		before := len(own.list())
		p.publish("a/b", "z")
		brokertest.WaitFor(t, "both have the last", func() bool {
			return slices.Contains(all.payloads(), "z") && slices.Contains(own.payloads(), "z")
		})
		if n := len(own.list()); n != before+1 {
			t.Errorf("%d came for one message", n-before)
		}
	})
}

// TestCancel unsubscribes and, with the last subscription, ends the session.
func TestCancel(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		f, _ := run(t, o)
		p := join(t, server)
		s, cancel := take(f, "a", false)
		same, cancelSame := take(f, "a", false)
		other, cancelOther := take(f, "b", false)
		waitSubscribed(t, f)
		p.publish("a", "1", "b", "1")
		s.want(t, "1")
		same.want(t, "1")
		cancel()
		p.publish("a", "2", "b", "2")
		same.want(t, "1", "2")
		other.want(t, "1", "2")
		s.want(t, "1")
		cancelSame()
		cancelOther()
		waitSubscribed(t, f) // nothing is pending
		brokertest.WaitFor(t, "the subscriber ends", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return !f.subscribers[0].running && !f.subscribers[0].kept
		})
		if sessionOf(t, server, "streams-0", five) {
			t.Error("the session is still there")
		}
		again, _ := take(f, "a", false)
		waitSubscribed(t, f)
		p.publish("a", "3")
		again.want(t, "3")
	})
}

// dynsec sends commands to the dynamic security plugin.
func dynsec(t *testing.T, server *brokertest.Server, commands string) {
	t.Helper()
	p := join(t, server)
	p.subscribe("$CONTROL/dynamic-security/v1/response")
	p.publish("$CONTROL/dynamic-security/v1", `{"commands":[`+commands+`]}`)
	if answer := string(p.next().Payload); strings.Contains(answer, "error") {
		t.Fatal(answer)
	}
	p.leave()
}

// restrict creates a user who may do everything but subscribe to "#".
func restrict(t *testing.T, server *brokertest.Server) (username string, password broker.Secret) {
	t.Helper()
	dynsec(t, server, `{"command":"createRole","rolename":"not","acls":[{"acltype":"subscribeLiteral","topic":"#","priority":9,"allow":false}]},
		{"command":"createClient","username":"u","password":"pw","roles":[{"rolename":"not","priority":9},{"rolename":"admin","priority":1}]}`)
	return "u", "pw"
}

// allow lets that user subscribe to it.
func allow(t *testing.T, server *brokertest.Server) {
	t.Helper()
	dynsec(t, server, `{"command":"removeRoleACL","rolename":"not","acltype":"subscribeLiteral","topic":"#"}`)
}

// sessionOf reports whether the broker has a session, by resuming it.
func sessionOf(t *testing.T, server *brokertest.Server, clientID string, five bool) bool {
	t.Helper()
	o := options(server, server.Addr)
	if !five {
		o.Open = options(server, brokertest.Only311(t, server.Addr, false)).Open
	}
	c, err := New(o).dial(t.Context(), connectParams{clientID: clientID, keep: five})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	return c.connack.sessionPresent
}

// TestRunEnds ends Run while the broker is unreachable.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	o := options(&brokertest.Server{}, "127.0.0.1:1")
	o.Timing.MinDelay, o.Timing.MaxDelay = time.Hour, time.Hour
	f, stop := run(t, o)
	take(f, "a", true)
	waitSubscribed(t, f)
	stop()
	if f.Reached() == nil {
		t.Error("the client is connected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(o).WaitSubscribed(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitSubscribed() = %v", err)
	}
}
