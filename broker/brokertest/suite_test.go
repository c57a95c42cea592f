package brokertest_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/embedded"
	"signalbox/broker/messaging"
	"signalbox/broker/remote"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/broker/streams/store"
)

// lacking2011 is what Mosquitto 2.0.11 of Debian lacks.
var lacking2011 = []brokertest.Feature{
	brokertest.PercentSubstitution,
	brokertest.AllowWildcardSubs,
	brokertest.Connections,
	brokertest.ClosedDollarTopics,
	brokertest.ModifyRoleCutsOff,
	brokertest.NonEmptyNames,
	brokertest.AnonymousGroupStays,
	brokertest.UTF8Names,
	brokertest.ReplacedMembersCut,
	brokertest.Transfer,
	brokertest.Inspection,
	brokertest.ClientControl,
	brokertest.MessageProperties,
	brokertest.OperatorsLists,
	brokertest.StreamKeepsAcks,
}

// dial connects to a broker over MQTT and waits until it is ready.
func dial(t *testing.T, target broker.Target) broker.Broker {
	t.Helper()
	d := remote.New(slog.New(slog.DiscardHandler))
	streamHost := host(t)
	d.Streams = func(id string, m messaging.Broker) messaging.StreamEngine { return streamHost.Open(id, m) }
	b, err := d.Dial(target)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the connection: %v", err)
		}
	})
	if err := b.Ready(t.Context()); err != nil {
		t.Fatalf("the broker does not become ready: %v", err)
	}
	return b
}

func TestRemoteToMosquitto(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(t *testing.T) brokertest.Subject {
		s := brokertest.Mosquitto(t, brokertest.AllowAnonymous(), brokertest.WithConfig("max_queued_messages 100000"))
		return brokertest.Subject{
			Broker: dial(t, s.Target()), URL: s.URL,
			AdminUsername: s.AdminUsername, AdminPassword: s.AdminPassword,
			Lacks: lacking2011,
		}
	})
}

// host returns a host of streams with a file of its own.
func host(t *testing.T) *streams.Host {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	kept, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "streams.db"), store.Options{Durability: storage.Process, Log: log})
	if err != nil {
		t.Fatalf("open the file of streams: %v", err)
	}
	t.Cleanup(func() {
		if err := kept.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the file of streams: %v", err)
		}
	})
	return streams.NewHost(streams.DefaultConfig(), kept, log)
}

// embed starts an embedded broker on a free port.
func embed(t *testing.T) (*embedded.Broker, broker.Target) {
	t.Helper()
	cfg := embedded.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.AllowAnonymous = true
	cfg.PasswordIterations = 100
	cfg.AdminPassword = broker.Secret(rand.Text())
	cfg.Streams = host(t)
	b, err := embedded.New(t.Context(), cfg, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("open the embedded broker: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the embedded broker: %v", err)
		}
	})
	if err := b.Start(t.Context()); err != nil {
		t.Fatalf("start the embedded broker: %v", err)
	}
	return b, broker.Target{ID: "embedded", Rev: 1, URL: "mqtt://" + b.Addrs()[0],
		Username: cfg.AdminUsername, Password: cfg.AdminPassword}
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(t *testing.T) brokertest.Subject {
		b, target := embed(t)
		return brokertest.Subject{Broker: b, URL: target.URL,
			AdminUsername: target.Username, AdminPassword: target.Password}
	})
}

func TestRemoteToEmbedded(t *testing.T) {
	t.Parallel()
	brokertest.Run(t, func(t *testing.T) brokertest.Subject {
		_, target := embed(t)
		return brokertest.Subject{Broker: dial(t, target), URL: target.URL,
			AdminUsername: target.Username, AdminPassword: target.Password,
			Lacks: []brokertest.Feature{brokertest.Transfer, brokertest.MessageProperties, brokertest.OperatorsLists,
				brokertest.NamedFields}}
	})
}
