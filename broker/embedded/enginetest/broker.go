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
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/file"
)

// Broker is an engine with the real store, behind a TCP socket.
type Broker struct {
	*engine.Engine
	T        testing.TB
	Addr     string
	Store    engine.Store  // as the engine has it
	Patience time.Duration // how long something is waited for that must come

	listener net.Listener
	serving  sync.WaitGroup
	store    *store.Store
	file     *file.File
}

// Start opens a broker on the file in dir, whose engine is neither loaded nor
// resumed. Whoever starts it closes it.
func Start(t testing.TB, patience time.Duration, dir string, change ...func(*engine.Config, *engine.Parts)) *Broker {
	t.Helper()
	f, err := schema.Open(t.Context(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	Check(t, err)
	s, err := store.Open(t.Context(), f, store.Options{Durability: file.Process})
	Check(t, err)
	c, p := engine.DefaultConfig(), engine.Parts{Store: s, Authority: Permissive{}, Watcher: blind{}, Control: func(*engine.Request) {}}
	for _, f := range change {
		f(&c, &p)
	}
	b := &Broker{Engine: engine.New(c, p), T: t, Store: p.Store, Patience: patience, store: s, file: f}
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	Check(t, err)
	b.Addr = b.listener.Addr().String()
	b.serving.Go(b.accept)
	return b
}

func (b *Broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			panic(err)
		}
		b.serving.Go(func() {
			b.Serve(&engine.Socket{Conn: conn, Raw: raw, Address: "127.0.0.1", Protocol: "MQTT"})
		})
	}
}

// Close ends the engine, then what the others end that stand between it and the
// store, then the store.
func (b *Broker) Close(others ...func()) {
	b.listener.Close()
	ctx, cancel := context.WithTimeout(context.Background(), b.Patience)
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

// CloseEngine ends the engine alone, which must not wait for the store.
func (b *Broker) CloseEngine() {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), b.Patience)
	defer cancel()
	Check(b.T, b.Engine.Close(ctx))
}
