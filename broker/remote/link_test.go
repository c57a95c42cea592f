package remote

import (
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// restless rests for ever between attempts, unless an operation wants the next one.
func restless() *Dialer {
	d := quick()
	d.timing.minDelay, d.timing.maxDelay, d.timing.retryInterval, d.timing.retryWait = time.Hour, time.Hour, 0, suite.HangLimit
	return d
}

// wantAnswers has many ask at the same time.
func wantAnswers(t *testing.T, b *Broker) {
	t.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := b.GetTTL(t.Context(), 0); err != nil {
				t.Errorf("GetTTL() = %v", err)
			}
		})
	}
	wg.Wait()
}

// wantResting waits until the next attempt waits.
func wantResting(t *testing.T, b *Broker) {
	t.Helper()
	brokertest.WaitFor(t, "the connection rests", func() bool {
		b.link.mu.Lock()
		defer b.link.mu.Unlock()
		return b.link.phase == waitingToRetry
	})
}

// TestOperationEndsTheRest of a connection to a broker that was not there.
func TestOperationEndsTheRest(t *testing.T) {
	t.Parallel()
	addr := brokertest.FreePort(t, "127.0.0.1")
	b := open(t, restless(), broker.Target{URL: "mqtt://" + addr, TopicTree: true})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantResting(t, b)
	_, err := b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	wantResting(t, b)
	(&scripted{answers: rich, respond: (&group{}).respond}).serveAt(t, addr)
	wantAnswers(t, b)
	if err := b.Close(t.Context()); err != nil { // before who serves it
		t.Error(err)
	}
}

// TestRefusedLogInIsNotUrged: a broker may ban who comes too often.
func TestRefusedLogInIsNotUrged(t *testing.T) {
	t.Parallel()
	proxy := brokertest.NewProxy(t, brokertest.Mosquitto(t).Addr)
	b := open(t, restless(), broker.Target{URL: proxy.URL, Username: "nobody"})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantResting(t, b)
	_, err := b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	wantResting(t, b)
	if n := proxy.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestOperationEndsTheRestAfterALoss connects again.
func TestOperationEndsTheRestAfterALoss(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL, target.TopicTree = proxy.URL, true
	b := open(t, restless(), target)
	for n := range 2 { // after the second one it takes its time
		brokertest.WaitFor(t, "the broker is connected", func() bool { return proxy.Accepted() == n+1 && b.Ready(t.Context()) == nil })
		proxy.Cut()
	}
	wantResting(t, b)
	wantAnswers(t, b)
	if n := proxy.Accepted(); n < 3 {
		t.Errorf("%d connections", n)
	}
}

// TestOperationsDoNotUrgeAtOnce leaves a broker alone that was just tried.
func TestOperationsDoNotUrgeAtOnce(t *testing.T) {
	t.Parallel()
	d := restless()
	d.timing.retryInterval = time.Hour
	b := open(t, d, broker.Target{URL: "mqtt://127.0.0.1:1"})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantResting(t, b)
	for range 3 {
		_, err := b.GetTTL(t.Context(), 0)
		wantKind(t, err, broker.Unavailable)
		wantResting(t, b)
	}
}

// TestFreshAttempt has an operation that follows another one at once not answer why
// the attempt before it failed: the broker has been started meanwhile.
func TestFreshAttempt(t *testing.T) {
	t.Parallel()
	addr := brokertest.FreePort(t, "127.0.0.1")
	d := restless()
	d.timing.retryInterval = time.Hour // an attempt was made just now
	b := open(t, d, broker.Target{URL: "mqtt://" + addr, TopicTree: true})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantResting(t, b)
	_, err := b.GetTTL(broker.WithFreshAttempt(t.Context()), 0)
	wantKind(t, err, broker.Unavailable)
	wantResting(t, b)
	(&scripted{answers: rich, respond: (&group{}).respond}).serveAt(t, addr)
	_, err = b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	if _, err := b.GetTTL(broker.WithFreshAttempt(t.Context()), 0); err != nil {
		t.Errorf("GetTTL() = %v", err)
	}
	if err := b.Close(t.Context()); err != nil { // before who serves it
		t.Error(err)
	}
}
