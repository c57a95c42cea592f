//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// connecters is the number of concurrent callers that connect and disconnect.
const connecters = 8

// measureConnect compares the processor time of a connection: TCP, CONNECT, CONNACK and DISCONNECT.
func (b *bench) measureConnect(ctx context.Context) error {
	for _, measure := range []func(*bench, context.Context) error{
		(*bench).measurePlainConnect, (*bench).measureRememberedConnect, (*bench).measureHashedConnect,
	} {
		if err := measure(b, ctx); err != nil {
			return err
		}
	}
	return nil
}

// measurePlainConnect connects without credentials.
func (b *bench) measurePlainConnect(ctx context.Context) error {
	p, err := b.newCompetitor(ctx, "SIGNALBOX_BROKER_ALLOW_ANONYMOUS=true")
	if err != nil {
		return err
	}
	peer, err := b.newPeer(ctx)
	if err != nil {
		return err
	}
	anonymous := func(int) (username, password string) { return "", "" }
	return b.compareConnects("a connect without credentials", unbounded,
		connects(ctx, p.server, p.target.Addr, b.connects, anonymous),
		connects(ctx, peer.server, peer.target.Addr, b.connects, anonymous))
}

// measureRememberedConnect connects the same user again and again. Mosquitto hashes each time; its file
// has the fewest iterations that it writes.
func (b *bench) measureRememberedConnect(ctx context.Context) error {
	p, err := b.newCompetitor(ctx)
	if err != nil {
		return err
	}
	peer, err := b.newGuardedPeer(ctx)
	if err != nil {
		return err
	}
	mine := func(int) (username, password string) { return loader, p.target.Password }
	theirs := func(int) (username, password string) { return loader, peer.target.Password }
	return b.compareConnects("a connect with a password that was right before", atMost(60),
		connects(ctx, p.server, p.target.Addr, b.connects, mine),
		connects(ctx, peer.server, peer.target.Addr, b.connects, theirs))
}

// measureHashedConnect connects another user each time.
func (b *bench) measureHashedConnect(ctx context.Context) error {
	users := b.hashed * (b.rounds + 1)
	p, err := b.newProduct(ctx, users, costly)
	if err != nil {
		return err
	}
	peer, err := b.newMosquitto(ctx, users, costly)
	if err != nil {
		return err
	}
	var next atomic.Int64
	mine := func(int) (username, password string) {
		return clientName(int(next.Add(1)-1) % users), p.access.password
	}
	theirs := func(n int) (username, password string) { return clientName(n), peer.access.password }
	return b.compareConnects(fmt.Sprintf("a connect with a password that is hashed, %d iterations", costly), unbounded,
		connects(ctx, p.child, p.mqtt, b.hashed, mine), connects(ctx, peer.child, peer.addr, b.hashed, theirs))
}

// connects is a load of connections, each of which is closed before its caller opens the next one.
func connects(ctx context.Context, server *child, addr string, calls int, as func(n int) (username, password string)) subject {
	return subject{server: server, callers: connecters, calls: calls, do: func(caller, n int) error {
		username, password := as(n)
		w, err := dial(ctx, addr, fmt.Sprintf("connecter-%d", caller), username, password)
		if err != nil {
			return err
		}
		return w.leave()
	}}
}

// leave disconnects, and waits until the broker has closed the connection.
func (w *wire) leave() error {
	defer w.conn.Close() //nolint:errcheck // the broker has closed it
	if err := w.send(disconnect, nil); err != nil {
		return err
	}
	if _, err := w.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("got %v after DISCONNECT, want the end of the connection", err)
	}
	return nil
}

// compareConnects reports the product's time, the ratio to the peer's, and connects a second.
func (b *bench) compareConnects(what string, l limit, product, peer subject) error {
	got, err := compare(b.rounds, product, peer)
	if err != nil {
		return err
	}
	figures := fmt.Sprintf("product %s; Mosquitto %s", got[0], got[1])
	b.report.add(what+": CPU of the broker", figures, got[0].cpu, "%.0f µs", l)
	b.report.add(what+": CPU, product : Mosquitto", "", got[0].cpu.over(got[1].cpu), "%.2f ×", unbounded)
	b.report.add(what+": a second", fmt.Sprintf("Mosquitto %.0f", got[1].perSecond.median()), got[0].perSecond, "%.0f", unbounded)
	return nil
}
