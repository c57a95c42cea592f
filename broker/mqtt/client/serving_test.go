package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
)

// turn is the serving time of one client, which may come again.
type turn struct {
	mu      sync.Mutex // guards the fields below
	context context.Context
	end     context.CancelFunc // nil while others use the session
	changed chan struct{}      // closed when the fields above change
}

func newTurn() *turn { return &turn{changed: make(chan struct{})} }

// set begins or ends the time.
func (s *turn) set(serving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if serving {
		s.context, s.end = context.WithCancel(context.Background())
	} else {
		s.end()
		s.context, s.end = nil, nil
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// serving is an Options.Serving.
func (s *turn) serving(ctx context.Context) (context.Context, error) {
	for {
		s.mu.Lock()
		serving, changed := s.context, s.changed
		s.mu.Unlock()
		if serving != nil {
			return serving, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TestServing has two clients use the same sessions in turns, as the nodes of a cluster do. What one of them has not settled
// goes to the other, and only that one acknowledges it.
func TestServing(t *testing.T) {
	inBothModes(t, func(t *testing.T, server *brokertest.Server, o Options, _ bool) {
		var turns [2]*turn
		var clients [2]*Client
		var sinks [2]*sink
		for i := range turns {
			turns[i] = newTurn()
			o.Serving = turns[i].serving
			clients[i], _ = run(t, o)
			sinks[i], _ = take(clients[i], "a", true)
		}
		turns[0].set(true)
		waitSubscribed(t, clients[0])
		p := join(t, server)
		p.publish("a", "1")
		sinks[0].want(t, "1")
		turns[0].set(false)
		if w, ok := sinks[0].notifiers[0].(messaging.WithdrawableNotifier); !ok || !w.Withdrawn() {
			t.Error("the message is not withdrawn")
		}
		turns[1].set(true)
		sinks[1].want(t, "1")
		sinks[0].settle() // without effect
		turns[1].set(false)
		turns[0].set(true)
		sinks[0].want(t, "1", "1")
		sinks[0].settle()
		p.publish("a", "2")
		sinks[0].want(t, "1", "1", "2")
		sinks[0].settle()
		turns[0].set(false)
		turns[1].set(true)
		waitSubscribed(t, clients[1])
		p.publish("a", "3")
		brokertest.WaitFor(t, "the next message is taken", func() bool { got := sinks[1].payloads(); return got[len(got)-1] == "3" })
		if got := len(sinks[1].list()); got > 4 { // an acknowledgement may have been lost with its connection
			t.Errorf("%d messages were taken: %q", got, sinks[1].payloads())
		}
	})
}

// TestPublishingNotServing checks that what is in flight when others begin to use the session is given up, and that the next turn begins
// a new session.
func TestPublishingNotServing(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		server := brokertest.Mosquitto(t)
		proxy := brokertest.NewProxy(t, server.Addr)
		o, own := options(server, proxy.Addr), newTurn()
		o.Session.KeepInFlight = keeps
		o.Serving = own.serving
		own.set(true)
		f, _ := run(t, o)
		waitConnected(t, f)
		held := proxy.Hold()
		d, sent, err := f.Send(t.Context(), numbered("out", 0, 10, 2))
		if sent != 10 || err != nil {
			t.Fatalf("Send() = %d, %v", sent, err)
		}
		result := make(chan error, 1)
		go func() {
			_, _, err := f.Publish(context.Background(), numbered("out", 10, 1, 2))
			result <- err
		}()
		<-held
		own.set(false)
		<-d.Done()
		if err := <-result; broker.KindOf(err) != broker.Unavailable {
			t.Errorf("Publish() = %v", err)
		}
		if d.Outcome(0).Done {
			t.Error("a message has an outcome that was not published")
		}
		if _, _, err := f.Publish(t.Context(), numbered("out", 0, 1, 2)); broker.KindOf(err) != broker.Unavailable {
			t.Errorf("Publish() = %v", err)
		}
		proxy.Pass()
		own.set(true)
		waitConnected(t, f)
		f.publisher.mu.Lock()
		present := f.publisher.conn.connack.sessionPresent
		f.publisher.mu.Unlock()
		if present {
			t.Error("the session of others is continued")
		}
	}
}

// TestWaitingNotServing ends the wait for another connection when others use the session.
func TestWaitingNotServing(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	o, own := options(server, proxy.Addr), newTurn()
	o.Serving = own.serving
	own.set(true)
	f, _ := run(t, o)
	waitConnected(t, f)
	proxy.Sever()
	result := make(chan error, 1)
	go func() {
		done, _, err := f.Publish(context.Background(), numbered("out", 0, 1, 1))
		if done == 0 && err == nil {
			err = errors.New("nothing is published, and there is no error")
		}
		result <- err
	}()
	own.set(false)
	if err := <-result; err != nil && broker.KindOf(err) != broker.Unavailable {
		t.Errorf("Publish() = %v", err)
	}
}

// TestNoConnectionAfterTurn ends the turn of a client before it makes sense to connect: it must not connect any more, as it would take
// the sessions from the client that uses them now.
func TestNoConnectionAfterTurn(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	o, own := options(server, server.Addr), newTurn()
	var connections, turns atomic.Int32
	entered, released := make(chan struct{}), make(chan struct{})
	o.Serving = func(ctx context.Context) (context.Context, error) {
		turns.Add(1)
		return own.serving(ctx)
	}
	o.Await = func(ctx context.Context) error {
		select {
		case entered <- struct{}{}:
		case <-released:
		case <-ctx.Done():
		}
		select {
		case <-released:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	open := o.Open
	o.Open = func(ctx context.Context) (net.Conn, error) {
		connections.Add(1)
		return open(ctx)
	}
	own.set(true)
	f, _ := run(t, o)
	<-entered
	own.set(false)
	close(released)
	brokertest.WaitFor(t, "the client waits for its next turn", func() bool { return turns.Load() == 2 })
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made after the turn", n)
	}
	own.set(true)
	waitConnected(t, f)
}
