package hosted

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// TestNone has neither streams nor bridges, and nothing to run.
func TestNone(t *testing.T) {
	t.Parallel()
	f := New(Options{})
	f.Open(client.New(client.Options{Log: slog.New(slog.DiscardHandler)}), nil, nil)
	if f.Streams() != nil || f.Bridges() != nil {
		t.Error("there are streams or bridges")
	}
	if err := f.Refresh(t.Context()); err != nil {
		t.Errorf("Refresh() = %v", err)
	}
	if serving, err := f.Serving(t.Context()); err != nil || serving.Err() != nil {
		t.Errorf("Serving() = %v, %v", serving, err)
	}
	f.Run(t.Context())
	if err := f.Close(t.Context()); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// TestAnotherNodeServes: the engines' broker names the cause that it is not reached.
func TestAnotherNodeServes(t *testing.T) {
	t.Parallel()
	f := New(Options{Serving: func(ctx context.Context) (context.Context, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	var b messaging.Broker
	f.Open(client.New(client.Options{Log: slog.New(slog.DiscardHandler)}), func(m messaging.Broker) messaging.StreamEngine {
		b = m
		return nil
	}, nil)
	if err := b.Reached(); broker.KindOf(err) != broker.Unavailable || !strings.Contains(err.Error(), "another node of the cluster, its leader,") {
		t.Errorf("Reached() = %v", err)
	}
}

// TestClientID: sessions at brokers are found again by the client id, so it must not change.
func TestClientID(t *testing.T) {
	t.Parallel()
	if got := ClientID("plant"); got != "signalbox-IO24R5PKMO2" {
		t.Errorf("ClientID() = %q", got)
	}
}
