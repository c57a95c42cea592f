package loadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// participant is the client of a publisher or a subscriber.
type participant struct {
	*run
	filter  string // that it subscribes to; "" for none
	client  *client.Client
	changed chan struct{} // buffered by one: the state of the connection
}

// timing has the times of the connections. What a lost connection costs is shown as messages
// that were lost or given up.
var timing = client.Timing{
	Connect: 30 * time.Second, ResumeTimeout: 10 * time.Second, Write: 30 * time.Second,
	MinDelay: 250 * time.Millisecond, MaxDelay: 5 * time.Second, Stable: 10 * time.Second,
	Ping: 20 * time.Second, ReadTimeout: time.Minute, Retry: 10 * time.Second, IdleTimeout: time.Hour,
}

func (p *participant) init(suffix string, session client.SessionOptions) {
	p.changed = make(chan struct{}, 1)
	session.CleanStart = true
	session.OnChange = func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	p.client = client.New(client.Options{
		Open: p.open, Explain: p.explain,
		Await:    func(ctx context.Context) error { return ctx.Err() },
		ClientID: p.ClientID + suffix, Username: p.Username, Password: p.Password,
		Session: session, Timing: timing, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

// attempts is how often a client tries to connect at first: with each version of MQTT.
const attempts = 2

// awaitConnected waits until the client is connected and subscribed, and returns why it cannot.
func (p *participant) awaitConnected(ctx context.Context) error {
	for {
		err := p.client.ConnectionError()
		switch {
		case err == nil:
			return p.awaitSubscribed(ctx)
		case p.client.Attempts() >= attempts && !errors.Is(err, client.ErrNotConnectedYet):
			return err
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *participant) awaitSubscribed(ctx context.Context) error {
	if p.filter == "" {
		return nil
	}
	if err := p.client.WaitSubscribed(ctx); err != nil {
		return err
	}
	if p.client.Refused(p.filter) {
		return fmt.Errorf("the broker refuses the subscription to %s: allow user %q to subscribe to it and to publish below %s", p.filter, p.Username, p.Topic)
	}
	return p.client.ConnectionError()
}

func (r *run) open(ctx context.Context) (net.Conn, error) {
	conn, f := r.Endpoint.Open(ctx, new(dial.Handshake))
	if f != nil {
		return nil, f
	}
	return conn, nil
}

func (r *run) explain(err error) *broker.Error {
	f := dial.FailureOf(err)
	if f == nil {
		f = &dial.Failure{Stage: dial.StageConnected, Err: err}
	}
	return r.Endpoint.Explain(f, r.Username)
}
