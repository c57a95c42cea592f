package enginetest

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/poll"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
)

// Broker is an engine with the real store, behind a TCP socket if it has one.
type Broker struct {
	*engine.Engine
	T       testing.TB
	Addr    string
	Store   engine.Store  // the one that the engine uses
	Timeout time.Duration // time limit for what must happen

	listener net.Listener
	serving  sync.WaitGroup
	store    *store.Store
	file     *storage.File
}

// Start opens a broker on the file in dir. Its engine is neither loaded nor resumed. The
// caller closes it.
func Start(t testing.TB, timeout time.Duration, dir string, change ...func(*engine.Config, *engine.Parts)) *Broker {
	t.Helper()
	b := Unconnected(t, timeout, dir, change...)
	var err error
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	Check(t, err)
	b.Addr = b.listener.Addr().String()
	b.serving.Go(b.accept)
	return b
}

// Unconnected is Start without a socket: clients connect by Pipe, so that the broker can
// run in virtual time. Connect and Dial do not use a network either.
func Unconnected(t testing.TB, timeout time.Duration, dir string, change ...func(*engine.Config, *engine.Parts)) *Broker {
	t.Helper()
	f, err := schema.Open(t.Context(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	Check(t, err)
	s, err := store.Open(t.Context(), f, store.Options{Durability: storage.Process})
	Check(t, err)
	c, p := engine.DefaultConfig(), engine.Parts{Store: s, Authority: Permissive{}, Watcher: blind{}, Control: func(*engine.Request) {}}
	for _, limit := range []*time.Duration{&c.ConnectTimeout, &c.WriteTimeout, &c.LoginTimeout, &c.Grace, &c.EvictTimeout} {
		*limit = timeout
	}
	for _, f := range change {
		f(&c, &p)
	}
	return &Broker{Engine: engine.New(c, p), T: t, Store: p.Store, Timeout: timeout, store: s, file: f}
}

// Pipe returns the client's end of an in-memory connection to the broker. The broker can
// write only while the client's end is read.
func (b *Broker) Pipe() net.Conn {
	near, far := net.Pipe()
	b.serving.Go(func() { b.Serve(&engine.Socket{Conn: near, Address: "127.0.0.1", Protocol: "MQTT"}) })
	return far
}

// accept serves every second connection as one that the runtime does not poll, where that is
// possible.
func (b *Broker) accept() {
	for n := 0; ; n++ {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			panic(err)
		}
		s := &engine.Socket{Conn: conn, Raw: raw, CloseDescriptor: func() { conn.Close() }, Address: "127.0.0.1", Protocol: "MQTT"}
		if n%2 == 1 {
			if polled, err := poll.Take(raw); err == nil {
				conn.Close()
				s = &engine.Socket{Conn: conn, Polled: polled, Address: "127.0.0.1", Protocol: "MQTT"}
			}
		}
		b.serving.Go(func() { b.Serve(s) })
	}
}

// Close closes the engine, then calls others, which close what is between the engine and
// the store, then closes the store.
func (b *Broker) Close(others ...func()) {
	if b.listener != nil {
		b.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	if err := b.Engine.Close(ctx); err != nil {
		b.T.Errorf("close: %v", err)
		return
	}
	for _, end := range others {
		end()
	}
	b.serving.Wait()
	if err := b.store.Close(ctx); err != nil {
		b.T.Errorf("close the store: %v", err)
	}
	Check(b.T, b.file.Close())
}

// CloseEngine closes only the engine, which must not wait for the store.
func (b *Broker) CloseEngine() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Timeout)
	defer cancel()
	Check(b.T, b.Engine.Close(ctx))
}
