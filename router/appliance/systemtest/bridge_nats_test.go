package systemtest

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// jetStreamPeer is a NATS server with a stream for all messages, which accepts no
// duplicates.
type jetStreamPeer struct {
	host   string
	port   int
	dir    string
	server *server.Server
	sample sample
}

func newJetStreamPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	p := &jetStreamPeer{dir: t.TempDir()}
	p.host, p.port, _ = cutAddress(t, brokertest.FreePort(t, suite.Host()))
	p.start(t)
	t.Cleanup(func() { p.stop(t) })
	p.ask(t, func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "plant", Subjects: []string{"plant.>"}, Storage: jetstream.FileStorage,
			Duplicates: time.Hour}) // longer than the service is stopped
		return err
	})
	return p
}

// cutAddress splits an address into host and port, and also returns it whole.
func cutAddress(t testing.TB, address string) (host string, port int, whole string) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, number(t, text), address
}

func (p *jetStreamPeer) bridge() (string, object) {
	return "nats-bridge", connectTo(object{"servers": []string{p.server.ClientURL()}}, object{"jetStream": true}, object{})
}

func (p *jetStreamPeer) start(t testing.TB) {
	t.Helper()
	var err error
	p.server, err = server.NewServer(&server.Options{Host: p.host, Port: p.port, JetStream: true, StoreDir: p.dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	p.server.Start()
	if !p.server.ReadyForConnections(suite.HangLimit) {
		t.Fatal("the NATS server does not start")
	}
	p.sample.keep(0)
}

func (p *jetStreamPeer) stop(testing.TB) {
	p.sample.keep(time.Hour)
	p.server.Shutdown()
	p.server.WaitForShutdown()
}

// ask calls the server over a connection of its own.
func (p *jetStreamPeer) ask(t testing.TB, question func(context.Context, jetstream.JetStream) error) {
	t.Helper()
	conn, err := nats.Connect(p.server.ClientURL(), nats.Timeout(suite.HangLimit))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
	defer cancel()
	if err := question(ctx, js); err != nil {
		t.Fatal(err)
	}
}

func (p *jetStreamPeer) count(t testing.TB) int {
	t.Helper()
	return p.sample.get(func() (n int) {
		p.ask(t, func(ctx context.Context, js jetstream.JetStream) error {
			stream, err := js.Stream(ctx, "plant")
			if err == nil {
				n = int(stream.CachedInfo().State.Msgs)
			}
			return err
		})
		return n
	})
}

func (p *jetStreamPeer) all(t testing.TB) (list []arrival) {
	t.Helper()
	p.ask(t, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "plant")
		if err != nil {
			return err
		}
		consumer, err := js.OrderedConsumer(ctx, "plant", jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		messages, err := consumer.Messages()
		if err != nil {
			return err
		}
		defer messages.Stop()
		for range stream.CachedInfo().State.Msgs {
			m, err := messages.Next()
			if err != nil {
				return err
			}
			a := arrival{ID: m.Headers().Get(nats.MsgIdHdr)}
			if err := json.Unmarshal(m.Data(), &a); err != nil {
				return err
			}
			list = append(list, a)
		}
		return nil
	})
	return list
}
