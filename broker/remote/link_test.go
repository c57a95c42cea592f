package remote

import (
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// withoutRetries returns a dialer that waits for ever between attempts, unless an operation
// wants the next one.
func withoutRetries() *Dialer {
	d := quick()
	d.timing.minDelay, d.timing.maxDelay, d.timing.retryInterval, d.timing.retryWait = time.Hour, time.Hour, 0, suite.HangLimit
	return d
}

// wantAnswers runs many operations concurrently.
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

// wantDelayed waits until the next attempt is delayed.
func wantDelayed(t *testing.T, b *Broker) {
	t.Helper()
	brokertest.WaitFor(t, "the connection rests", func() bool {
		b.link.mu.Lock()
		defer b.link.mu.Unlock()
		return b.link.phase == waitingToRetry
	})
}

// TestOperationEndsTheRest of a connection to a broker that could not be reached.
func TestOperationEndsTheRest(t *testing.T) {
	t.Parallel()
	addr := brokertest.FreePort(t, "127.0.0.1")
	b := open(t, withoutRetries(), broker.Target{URL: "mqtt://" + addr, TopicTree: true})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantDelayed(t, b)
	_, err := b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	wantDelayed(t, b)
	(&scripted{answers: rich, respond: (&group{}).respond}).serveAt(t, addr)
	wantAnswers(t, b)
	if err := b.Close(t.Context()); err != nil { // before its server
		t.Error(err)
	}
}

// TestRefusedLogInIsNotUrged: a broker may ban frequent attempts.
func TestRefusedLogInIsNotUrged(t *testing.T) {
	t.Parallel()
	proxy := brokertest.NewProxy(t, brokertest.Mosquitto(t).Addr)
	b := open(t, withoutRetries(), broker.Target{URL: proxy.URL, Username: "nobody"})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantDelayed(t, b)
	_, err := b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	wantDelayed(t, b)
	if n := proxy.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestOperationEndsTheRestAfterALoss reconnects.
func TestOperationEndsTheRestAfterALoss(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL, target.TopicTree = proxy.URL, true
	b := open(t, withoutRetries(), target)
	for n := range 2 { // after the second one there is a delay
		brokertest.WaitFor(t, "the broker is connected", func() bool { return proxy.Accepted() == n+1 && b.Ready(t.Context()) == nil })
		proxy.Cut()
	}
	wantDelayed(t, b)
	wantAnswers(t, b)
	if n := proxy.Accepted(); n < 3 {
		t.Errorf("%d connections", n)
	}
}

// TestOperationsDoNotUrgeAtOnce: a broker that was just tried is not tried again.
func TestOperationsDoNotUrgeAtOnce(t *testing.T) {
	t.Parallel()
	d := withoutRetries()
	d.timing.retryInterval = time.Hour
	b := open(t, d, broker.Target{URL: "mqtt://127.0.0.1:1"})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantDelayed(t, b)
	for range 3 {
		_, err := b.GetTTL(t.Context(), 0)
		wantKind(t, err, broker.Unavailable)
		wantDelayed(t, b)
	}
}

// TestFreshAttempt: an operation right after another one does not return the error of
// the attempt before it, because the broker may have been started since.
func TestFreshAttempt(t *testing.T) {
	t.Parallel()
	addr := brokertest.FreePort(t, "127.0.0.1")
	d := withoutRetries()
	d.timing.retryInterval = time.Hour // an attempt was made just now
	b := open(t, d, broker.Target{URL: "mqtt://" + addr, TopicTree: true})
	wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	wantDelayed(t, b)
	_, err := b.GetTTL(broker.WithFreshAttempt(t.Context()), 0)
	wantKind(t, err, broker.Unavailable)
	wantDelayed(t, b)
	(&scripted{answers: rich, respond: (&group{}).respond}).serveAt(t, addr)
	_, err = b.GetTTL(t.Context(), 0)
	wantKind(t, err, broker.Unavailable)
	if _, err := b.GetTTL(broker.WithFreshAttempt(t.Context()), 0); err != nil {
		t.Errorf("GetTTL() = %v", err)
	}
	if err := b.Close(t.Context()); err != nil { // before its server
		t.Error(err)
	}
}
