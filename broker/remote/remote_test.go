package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// quick returns a dialer for tests: what has to be waited for is short, what must not
// happen has long timeouts.
func quick() *Dialer {
	d := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.timing.minDelay = 5 * time.Millisecond
	d.timing.maxDelay = 50 * time.Millisecond
	d.timing.sampleInterval = 20 * time.Millisecond
	d.timing.connectTimeout, d.timing.responseTimeout, d.timing.writeTimeout = suite.HangLimit, suite.HangLimit, suite.HangLimit
	d.timing.stable = time.Hour // no test lasts that long
	return d
}

// open dials a target, and closes the broker at the end of the test.
func open(t testing.TB, d *Dialer, target broker.Target) *Broker {
	t.Helper()
	b, err := d.dial(target)
	if err != nil {
		t.Fatalf("Dial(%s) = %v", target.URL, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return b
}

// connected is open for a broker that must become ready.
func connected(t testing.TB, target broker.Target) *Broker {
	t.Helper()
	b := open(t, quick(), target)
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("Ready() = %v", err)
	}
	return b
}

func TestDial(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	for _, url := range []string{server.URL, server.TLSURL, server.WSURL, server.WSSURL} {
		target := server.Target()
		target.URL = url
		target.TLS = broker.TLS{CACert: string(server.CA.PEM), Verify: true}
		b := open(t, quick(), target) // a command waits for the first attempt
		acls, err := b.GetDefaultACLAccess(t.Context())
		if err != nil || len(acls) != 4 {
			t.Errorf("%s: GetDefaultACLAccess() = %v, %v", url, acls, err)
		}
		if err := b.Ready(t.Context()); err != nil {
			t.Errorf("%s: Ready() = %v", url, err)
		}
	}
}

// wantKind checks the kind of an error and returns it.
func wantKind(t testing.TB, err error, kind broker.Kind) *broker.Error {
	t.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != kind {
		t.Fatalf("error %v of kind %d, want kind %d", err, broker.KindOf(err), kind)
	}
	if e.Op == "" || e.Msg == "" {
		t.Errorf("%#v lacks the operation or the sentence", e)
	}
	return e
}
