package engine_test

import (
	"context"
	"net"
	"testing"

	"signalbox/broker/embedded/engine"
)

// queue is an authority that decides about a log-in after its client disconnected.
type queue struct{ permissive }

func (queue) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	ctx, done := l.WhileConnected(ctx)
	defer done()
	<-ctx.Done()
	return engine.Admission{}, context.Cause(ctx)
}

// TestLoginOfAClientThatLeft disconnects a client while its log-in waits. The log-in ends, is
// counted, and is not a refusal.
func TestLoginOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Authority = queue{} })
	near, far := net.Pipe()
	defer far.Close()
	left, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		b.Serve(&engine.Socket{Conn: near, AwaitEnd: func() error { <-left; return nil }, Address: "test", Protocol: "MQTT"})
	}()
	if _, err := far.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c")); err != nil {
		t.Fatal(err)
	}
	close(left)
	<-served
	if c := b.Counts(); c.Left != 1 || c.Refused != 0 || c.Connections != 0 {
		t.Errorf("%d log-ins of clients that left, %d refused, %d let in", c.Left, c.Refused, c.Connections)
	}
}

// patient is an authority whose log-ins wait until the client disconnects, if that is
// detected.
type patient struct{ permissive }

func (p patient) Authenticate(ctx context.Context, l *engine.Login) (engine.Admission, error) {
	in, done := l.WhileConnected(ctx)
	defer done()
	if in != ctx {
		<-in.Done()
		return engine.Admission{}, context.Cause(in)
	}
	return p.permissive.Authenticate(ctx, l)
}

// TestClientThatDoesNotWait sends a message behind CONNECT and disconnects at once. The message
// is published.
func TestClientThatDoesNotWait(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Authority = patient{} })
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		far.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c\x30\x04\x00\x01ax\xe0\x00"))
		far.Read(make([]byte, 4)) // CONNACK, if it is sent
	}()
	b.Serve(&engine.Socket{Conn: near, AwaitEnd: func() error { return nil }, Address: "test", Protocol: "MQTT"})
	if c := b.Counts(); c.PublishesReceived != 1 {
		t.Errorf("%d messages were published, and %d log-ins dropped", c.PublishesReceived, c.Left)
	}
}
