package feed

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
	"signalbox/broker/streams"
)

// ways are the two in which messages are told apart.
var ways = map[string]bool{"identified": true, "apart": false}

// either runs a test for both, on a Mosquitto of its own.
func either(t *testing.T, test func(t *testing.T, server *brokertest.Server, o Options, five bool)) {
	t.Parallel()
	for name, five := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t)
			addr := server.Addr
			if !five {
				addr = only311(t, server.Addr, false)
			}
			test(t, server, options(server, addr), five)
		})
	}
}

// TestEachOnce gives each inlet each message once and in order, however the
// filters overlap.
func TestEachOnce(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		filters := []string{"#", "a/#", "a/+", "+/b", "a/b", "a/b", "+/+/c", "b"}
		f, _ := run(t, o)
		sinks := make([]*sink, len(filters))
		for i, filter := range filters {
			sinks[i], _ = take(f, filter, i%2 == 0)
		}
		settle(t, f)
		p := join(t, server)
		topics := []string{"a/b", "a/c", "b", "a/b/c", "x/y/c", "end"}
		for i := range 20 {
			for _, topic := range topics {
				p.send(&paho.Publish{Topic: topic, Payload: fmt.Appendf(nil, "%s %d", topic, i), QoS: byte(i % 3)})
			}
			for _, s := range sinks {
				s.settle()
			}
		}
		p.publish("end", "end")
		brokertest.WaitFor(t, "the last message is taken", func() bool {
			sinks[0].settle()
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
			slices.Sort(got) // messages of different QoS may overtake one another
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", filter, got, want)
			}
		}
		if five != (f.mode == identified) {
			t.Errorf("the mode is %d", f.mode)
		}
	})
}

// TestProperties passes on what a message has, but RETAIN, and tells when it
// expires.
func TestProperties(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	f, _ := run(t, options(server, server.Addr))
	p := join(t, server)
	p.send(&paho.Publish{Topic: "a", Payload: []byte("before"), QoS: 1, Retain: true})
	s, _ := take(f, "a", false)
	settle(t, f)
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
	if done, refused, err := f.Publish(t.Context(), []streams.Message{m}); done != 1 || refused != 0 || err != nil {
		t.Fatalf("Publish() = %d, %d, %v", done, refused, err)
	}
	got := p.next()
	if q := got.Properties; got.Retain || got.QoS != 2 || string(got.Payload) != "live" || *q.PayloadFormat != 1 || *q.MessageExpiry > 100 ||
		q.ContentType != "text/plain" || q.ResponseTopic != "answer" || string(q.CorrelationData) != "\x00\xff" ||
		!slices.Equal(q.User, paho.UserProperties{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}, {Key: "a", Value: "0"}}) {
		t.Errorf("got %+v, %+v", got, q)
	}
}

// TestOlder passes messages without properties over MQTT 3.1.1, and leaves out
// what was retained.
func TestOlder(t *testing.T) {
	t.Parallel()
	for _, hangUp := range []bool{false, true} {
		server := brokertest.Mosquitto(t)
		f, _ := run(t, options(server, only311(t, server.Addr, hangUp)))
		p := join(t, server)
		p.send(&paho.Publish{Topic: "a", Payload: []byte("before"), QoS: 1, Retain: true})
		s, _ := take(f, "a", true)
		brokertest.WaitFor(t, "it is connected", func() bool { settle(t, f); return f.Reached() == nil && !f.lane[0].failing() })
		p.publish("a", "live")
		s.want(t, "live")
		s.settle()
		p.subscribe("out")
		m := s.list()[0]
		for qos := range byte(3) {
			m.Topic, m.QoS, m.Properties = "out", qos, []byte("\x01\x01")
			if done, _, err := f.Publish(t.Context(), []streams.Message{m}); done != 1 || err != nil {
				t.Fatalf("Publish() = %d, %v", done, err)
			}
			if got := p.next(); got.QoS != qos || got.Properties.PayloadFormat != nil || string(got.Payload) != "live" {
				t.Errorf("got %+v", got)
			}
		}
	}
}

// TestAcknowledgedWhenSettled lets a broker send no more than it may have under
// way until what was sent is settled.
func TestAcknowledgedWhenSettled(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		f, _ := run(t, o)
		s, _ := take(f, "a", true)
		settle(t, f)
		p := join(t, server)
		window := 20 // Mosquitto's own
		if five {
			window = inbound
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

// TestKeptSession loses nothing while there is no connection, and takes nothing
// twice whose acknowledgement the broker has got. Those of QoS 1 may be lost.
func TestKeptSession(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		addr := server.Addr
		if !five {
			addr = only311(t, server.Addr, false)
		}
		proxy := brokertest.NewProxy(t, addr)
		f, _ := run(t, options(server, proxy.Addr))
		s, _ := take(f, "a", true)
		settle(t, f)
		p := join(t, server)
		p.publish("a", "1")
		p.send(&paho.Publish{Topic: "a", Payload: []byte("2"), QoS: 2})
		s.want(t, "1", "2")
		for i := range 3 { // not settled, settled meanwhile, settled before
			before := proxy.Accepted()
			struck := proxy.Refuse()
			proxy.Cut()
			<-struck
			p.publish("a", fmt.Sprint(3+2*i))
			p.send(&paho.Publish{Topic: "a", Payload: fmt.Append(nil, 4+2*i), QoS: 2})
			if i == 1 {
				s.settle()
			}
			proxy.Pass()
			brokertest.WaitFor(t, "it is connected again", func() bool { return proxy.Accepted() >= before+2 })
			brokertest.WaitFor(t, "what was published meanwhile is there", func() bool { return len(s.list()) >= 4+2*i })
			if i == 2 {
				s.settle()
			}
		}
		p.publish("a", "end")
		brokertest.WaitFor(t, "the last message is there", func() bool { s.settle(); return slices.Contains(s.payloads(), "end") })
		var once []string
		for i, m := range s.list() {
			if m.QoS == 2 || !slices.Contains(s.payloads()[:i], string(m.Payload)) {
				once = append(once, string(m.Payload))
			}
		}
		if want := []string{"1", "2", "3", "4", "5", "6", "7", "8", "end"}; !slices.Equal(once, want) {
			t.Errorf("got %q, want %q", s.payloads(), want)
		}
	})
}

// TestRestart finds what was published while the service did not run, and what
// was not settled when it ended.
func TestRestart(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		filters := []string{"a/+", "+/b", "a/b", "#"}
		p := join(t, server)
		var last []*sink
		for round := range 3 {
			f := New(o)
			var sinks []*sink
			for _, filter := range filters {
				s, _ := take(f, filter, true)
				sinks = append(sinks, s)
			}
			stop := start(t, f)
			settle(t, f)
			if round > 0 {
				for i, s := range sinks {
					brokertest.WaitFor(t, filters[i]+" has what it missed", func() bool { return len(s.list()) >= 2 })
					if got, want := s.payloads(), []string{fmt.Sprint("live ", round-1), fmt.Sprint("missed ", round-1)}; !slices.Equal(got, want) {
						t.Errorf("%s: got %q, want %q", filters[i], got, want)
					}
					s.settle()
				}
			}
			p.publish("a/b", fmt.Sprint("live ", round))
			for i, s := range sinks {
				brokertest.WaitFor(t, filters[i]+" has it live", func() bool { return slices.Contains(s.payloads(), fmt.Sprint("live ", round)) })
			}
			stop()
			for _, s := range last {
				s.settle() // too late, for nobody
			}
			last = sinks
			p.publish("a/b", fmt.Sprint("missed ", round))
		}
	})
}

// TestRefusedSubscription tells of what rights forbid, goes on with the rest, and
// tries again.
func TestRefusedSubscription(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		var log journal
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

// TestCancel ends subscriptions and, with the last one, the session.
func TestCancel(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		f, _ := run(t, o)
		p := join(t, server)
		s, cancel := take(f, "a", false)
		same, cancelSame := take(f, "a", false)
		other, cancelOther := take(f, "b", false)
		settle(t, f)
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
		settle(t, f) // nothing
		brokertest.WaitFor(t, "the lane ends", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return !f.lane[0].running && !f.lane[0].kept
		})
		if sessionOf(t, server, "streams-0", five) {
			t.Error("the session is still there")
		}
		again, _ := take(f, "a", false)
		settle(t, f)
		p.publish("a", "3")
		again.want(t, "3")
	})
}

// dynsec has the broker's own plugin do commands.
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

// restrict makes a user who may do everything but subscribe to "#".
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

// sessionOf tells whether the broker keeps a session, by taking it over.
func sessionOf(t *testing.T, server *brokertest.Server, clientID string, five bool) bool {
	t.Helper()
	o := options(server, server.Addr)
	if !five {
		o.Open = options(server, only311(t, server.Addr, false)).Open
	}
	c, err := New(o).dial(t.Context(), login{clientID: clientID, keep: five})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	return c.allowed.present
}

// TestLeftBehind gets rid of a subscription that an earlier run has left in the
// session, when it shows.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	o := options(server, server.Addr)
	f, stop := run(t, o)
	take(f, "old/+", false)
	take(f, "a", false)
	settle(t, f)
	stop()
	f, stop = run(t, o)
	s, _ := take(f, "a", false)
	settle(t, f)
	p := join(t, server)
	p.publish("old/1", "x", "a", "1")
	s.want(t, "1")
	brokertest.WaitFor(t, "it is unsubscribed from", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.lane[0].nextID == 2 && len(f.lane[0].asked) == 0
	})
	stop()
	p.publish("old/1", "x", "a", "2")
	c, err := New(o).dial(t.Context(), login{clientID: "streams-0"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first, body, _, err := c.next()
	var m incoming
	if err != nil || m.decode(first, body, c.version) != nil || string(m.topic) != "a" {
		t.Errorf("the session has kept %q, %v", body, err)
	}
}

// TestBrokerGone goes on when a broker comes back that has forgotten everything.
func TestBrokerGone(t *testing.T) {
	either(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		f, _ := run(t, o)
		s, _ := take(f, "a/#", true)
		settle(t, f)
		join(t, server).publish("a/1", "1")
		s.want(t, "1")
		server.Stop(t)
		brokertest.WaitFor(t, "it is known to be gone", func() bool { return f.Reached() != nil })
		var unavailable *broker.Error
		if _, _, err := f.Publish(t.Context(), []streams.Message{{Topic: "b"}}); !errors.As(err, &unavailable) || unavailable.Kind != broker.Unavailable {
			t.Errorf("Publish() = %v", err)
		}
		server.Start(t)
		s.settle() // of which nobody knows any more
		brokertest.WaitFor(t, "it is reached again", func() bool { return f.Reached() == nil })
		p := join(t, server)
		brokertest.WaitFor(t, "messages come again", func() bool { p.publish("a/2", "2"); return len(s.list()) > 1 })
	})
}

// TestRunEnds ends while nothing can be reached.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	o := options(&brokertest.Server{}, "127.0.0.1:1")
	o.Timing.MinPause, o.Timing.MaxPause = time.Hour, time.Hour
	f, stop := run(t, o)
	take(f, "a", true)
	settle(t, f)
	stop()
	if f.Reached() == nil {
		t.Error("it is reached")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(o).Settled(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Settled() = %v", err)
	}
}
