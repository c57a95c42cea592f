package sink_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"signalbox/scripts/bench/sink"
	"signalbox/scripts/suite"
)

// TestFill writes to both sinks, one of which has a subscriber that counts.
func TestFill(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	where, done := make(chan sink.Targets, 1), make(chan error, 1)
	go func() { done <- sink.Serve(ctx, func(at sink.Targets) { where <- at }) }()
	var at sink.Targets
	select {
	case at = <-where:
	case err := <-done:
		t.Fatalf("the sinks ended: %v", err)
	}
	nc, err := nats.Connect(at.NATS, nats.Timeout(suite.HangLimit))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("bench.bare")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	m := sink.Message{Topic: "bench/drain/000", Payload: []byte(`{"number":1}`)}
	const messages, batch = 25, 10
	if err := sink.FillNATS(ctx, at.NATS, m, messages, batch); err != nil {
		t.Fatal(err)
	}
	for n := range messages {
		got, err := sub.NextMsg(suite.HangLimit)
		if err != nil {
			t.Fatalf("message %d: %v", n, err)
		}
		if string(got.Data) != string(m.Payload) || got.Header.Get("Mqtt-Topic") != m.Topic {
			t.Errorf("got %s of %s, want %s of %s", got.Data, got.Header.Get("Mqtt-Topic"), m.Payload, m.Topic)
		}
	}
	if err := sink.FillHTTP(ctx, at.HTTP, m, messages, batch); err != nil {
		t.Error(err)
	}
	if err := sink.FillHTTP(ctx, "http://127.0.0.1:1/", m, messages, batch); err == nil {
		t.Error("no error without a listener")
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the sinks ended: %v", err)
	}
}
