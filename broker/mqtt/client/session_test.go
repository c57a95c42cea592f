package client

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// TestKeptSession loses nothing while there is no connection, and receives nothing twice that
// was acknowledged; a QoS 1 acknowledgement may be lost.
func TestKeptSession(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, five bool) {
		addr := server.Addr
		if !five {
			addr = brokertest.Only311(t, server.Addr, false)
		}
		proxy := brokertest.NewProxy(t, addr)
		f, _ := run(t, options(server, proxy.Addr))
		s, _ := take(f, "a", true)
		waitSubscribed(t, f)
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
			brokertest.WaitFor(t, "messages published meanwhile are received", func() bool { return len(s.list()) >= 4+2*i })
			if i == 2 {
				s.settle()
			}
		}
		p.publish("a", "end")
		brokertest.WaitFor(t, "the last message is received", func() bool { s.settle(); return slices.Contains(s.payloads(), "end") })
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

// TestRestart receives what was published while the service was stopped, and what was not
// settled when it stopped.
func TestRestart(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
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
			waitSubscribed(t, f)
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
				s.settle() // too late, without effect
			}
			last = sinks
			p.publish("a/b", fmt.Sprint("missed ", round))
		}
	})
}

// TestStaleSubscription removes a subscription that an earlier run left in the session, when a
// message arrives by it.
func TestStaleSubscription(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	o := options(server, server.Addr)
	f, stop := run(t, o)
	take(f, "old/+", false)
	take(f, "a", false)
	waitSubscribed(t, f)
	stop()
	f, stop = run(t, o)
	s, _ := take(f, "a", false)
	waitSubscribed(t, f)
	p := join(t, server)
	p.publish("old/1", "x", "a", "1")
	s.want(t, "1")
	brokertest.WaitFor(t, "it is unsubscribed from", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.subscribers[0].nextID == 2 && len(f.subscribers[0].awaitingAck) == 0
	})
	stop()
	p.publish("old/1", "x", "a", "2")
	c, err := New(o).dial(t.Context(), connectParams{clientID: "streams-0"})
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

// TestBrokerRestart continues with a restarted broker that has lost all sessions.
func TestBrokerRestart(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		o.Timing.ResumeTimeout = 50 * time.Millisecond // as the test waits for it
		f, _ := run(t, o)
		s, _ := take(f, "a/#", true)
		waitSubscribed(t, f)
		join(t, server).publish("a/1", "1")
		s.want(t, "1")
		server.Stop(t)
		brokertest.WaitFor(t, "the connection is lost", func() bool { return f.Reached() != nil })
		var unavailable *broker.Error
		if _, _, err := f.Publish(t.Context(), []messaging.Message{{Topic: "b"}}); !errors.As(err, &unavailable) || unavailable.Kind != broker.Unavailable {
			t.Errorf("Publish() = %v", err)
		}
		server.Start(t)
		s.settle() // unknown to the broker
		brokertest.WaitFor(t, "the client is connected again", func() bool { return f.Reached() == nil })
		p := join(t, server)
		brokertest.WaitFor(t, "messages are received again", func() bool { p.publish("a/2", "2"); return len(s.list()) > 1 })
	})
}

// TestStopReceiving leaves messages and subscriptions to the next run.
func TestStopReceiving(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		f, stop := run(t, o)
		s, cancel := take(f, "a", false)
		waitSubscribed(t, f)
		p := join(t, server)
		p.publish("a", "1")
		s.want(t, "1")
		f.StopReceiving()
		p.publish("a", "2")
		take(f, "b", false)
		waitSubscribed(t, f) // the response follows the message
		cancel()
		stop()
		s.want(t, "1")
		f = New(o)
		again, _ := take(f, "a", false)
		start(t, f)
		again.want(t, "2")
	})
}
