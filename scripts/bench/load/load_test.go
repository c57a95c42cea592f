//go:build linux

package load

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/bench/relay"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// small returns a load short enough for a test.
func small(e Scenario) (Load, int) {
	switch l := e.Load.(type) {
	case Retained:
		l.Topics = 500
		return l, 1_000
	case Flow:
		l.Publishers, l.Subscribers = min(l.Publishers, 100), min(l.Subscribers, 20)
		return l, 10 * l.Publishers
	}
	return e.Load, 500
}

// TestScenarios_with_Mosquitto plays every load twice.
func TestScenarios_with_Mosquitto(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig("max_queued_messages 0", "max_inflight_messages 1000"))
	for _, e := range Scenarios() {
		t.Run(e.Name, func(t *testing.T) {
			l, messages := small(e)
			playTwice(t, l, Target{Addr: server.Addr}, messages)
		})
	}
}

// TestFlows_with_the_relay plays those that need no more than a relay.
func TestFlows_with_the_relay(t *testing.T) {
	t.Parallel()
	target := Target{Addr: startRelay(t)}
	for _, e := range Scenarios() {
		if f, ok := e.Load.(Flow); !ok || f.Paths > 0 {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			l, messages := small(e)
			playTwice(t, l, target, messages)
		})
	}
}

func startRelay(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the relay ended: %v", err)
		}
	})
	return ln.Addr().String()
}

func playTwice(t *testing.T, l Load, target Target, messages int) {
	t.Helper()
	s, err := l.Open(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	want := messages
	f, isFlow := l.(Flow)
	if isFlow {
		want = messages * f.Subscribers / f.Topics
	}
	for range 2 {
		pass, err := s.Play(t.Context(), messages)
		if err != nil || pass.Delivered != want || pass.Took <= 0 {
			t.Errorf("got %d messages in %v, %v; want %d", pass.Delivered, pass.Took, err, want)
		}
		if isFlow && f.Rate > 0 && len(pass.Latencies) != want {
			t.Errorf("got %d latencies, want %d", len(pass.Latencies), want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSubscriber_refuses covers what a subscriber rejects.
func TestSubscriber_refuses(t *testing.T) {
	t.Parallel()
	message := func(publisher int, seq int64) packet.Message {
		return packet.Message{Topic: []byte("t"), Payload: stamp{publisher: publisher, seq: seq}.append(nil, false), QoS: 1, ID: 1}
	}
	short, otherQoS, retained, again := message(0, 1), message(0, 1), message(0, 1), message(0, 1)
	short.Payload, otherQoS.QoS, retained.Retain, again.Dup = short.Payload[1:], 0, true, true
	for name, c := range map[string]struct {
		give packet.Message
		want error
	}{
		"the next one":               {message(0, 1), nil},
		"the first of another":       {message(1, 0), nil},
		"one after a lost one":       {message(0, 2), errWrong},
		"one that it has":            {message(0, 0), errWrong},
		"one of an unknown sender":   {message(2, 0), errWrong},
		"one that is cut short":      {short, errWrong},
		"one of another QoS":         {otherQoS, errWrong},
		"one as if it were retained": {retained, errWrong},
		"one that is sent again":     {again, errWrong},
	} {
		s := &subscriber{qos: 1, next: []int64{1, 0}, done: []int64{1, 0}}
		b := packet.AppendPublish(nil, c.give)
		if _, err := s.take(nil, b[0], b[2:]); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestPlay_ends_when_the_broker_goes checks that a load does not wait for ever.
func TestPlay_ends_when_the_broker_goes(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, ln) }()
	s, err := Flow{Publishers: 1, Subscribers: 1, Topics: 1, Window: 10, Rate: 1_000}.Open(t.Context(), Target{Addr: ln.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, stop)
	if pass, err := s.Play(t.Context(), 1_000_000); err == nil {
		t.Errorf("got %d messages and no error from a broker that ended", pass.Delivered)
	}
	if err := errors.Join(s.Close(), <-done); err != nil {
		t.Error(err)
	}
}

func TestGather(t *testing.T) {
	t.Parallel()
	const n = perAddress + 5
	c, err := ConnectIdle(t.Context(), Target{Addr: startRelay(t)}, n)
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]int{}
	for _, one := range c.clients {
		addresses[one.LocalAddr().(*net.TCPAddr).IP.String()]++
	}
	if addresses["127.0.1.1"] != perAddress || addresses["127.0.1.2"] != 5 {
		t.Errorf("got connections %v, want %d and 5", addresses, perAddress)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
