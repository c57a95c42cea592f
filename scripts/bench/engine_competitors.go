//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/relay"
)

// relayCommand runs this program as the relay.
const relayCommand = "relay"

// competitor is a broker that takes part in a comparison.
type competitor struct {
	name   string
	server *child
	others []*child // the other nodes of its cluster
	target load.Target
}

// spent returns the processor time that all nodes of the broker have used so far.
func (r competitor) spent() (time.Duration, error) { return sumCPU(r.server, r.others) }

// competitors are the brokers that several measurements share.
type competitors struct{ product, mosquitto, relay competitor }

// sharedCompetitors returns them and starts them at the first call.
func (b *bench) sharedCompetitors(ctx context.Context) (*competitors, error) {
	if b.shared != nil {
		return b.shared, nil
	}
	var r competitors
	var err error
	if r.product, err = b.newCompetitor(ctx); err != nil {
		return nil, err
	}
	if r.mosquitto, err = b.newPeer(ctx); err != nil {
		return nil, err
	}
	if r.relay, err = b.newRelay(ctx); err != nil {
		return nil, err
	}
	b.shared = &r
	return b.shared, nil
}

// newCompetitor starts a fresh product with authentication and access control, and with
// these settings.
func (b *bench) newCompetitor(ctx context.Context, settings ...string) (r competitor, err error) {
	a, err := writeLoadAccess(b.path("load.json"))
	if err != nil {
		return r, err
	}
	p, err := b.newLoaded(ctx, a, settings...)
	if err != nil {
		return r, err
	}
	return competitor{name: "product", server: p.child, target: p.access.target(p.mqtt)}, nil
}

// newLoaded starts a fresh product with that access control.
func (b *bench) newLoaded(ctx context.Context, a access, settings ...string) (*product, error) {
	p, err := b.emptyProduct()
	if err != nil {
		return nil, err
	}
	p.access, p.settings = a, settings
	return p, b.startProduct(ctx, p)
}

// newPeer starts a fresh Mosquitto that admits every client and limits nothing that a
// load needs.
func (b *bench) newPeer(ctx context.Context) (r competitor, err error) {
	m, err := b.startMosquitto(ctx, func(*mosquitto, string) (string, error) {
		return "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 1000\n", nil
	})
	if err != nil {
		return r, err
	}
	return competitor{name: "Mosquitto", server: m.child, target: load.Target{Addr: m.addr}}, nil
}

// newGuardedPeer starts a fresh Mosquitto with the access control of the product.
func (b *bench) newGuardedPeer(ctx context.Context) (r competitor, err error) {
	plugin, err := findPlugin()
	if err != nil {
		return r, err
	}
	m, err := b.startMosquitto(ctx, func(m *mosquitto, dir string) (conf string, err error) {
		file := dir + ".json"
		m.access, err = writeLoadAccess(file)
		return "max_queued_messages 0\nmax_inflight_messages 1000\n" + withPlugin(plugin, file), err
	})
	if err != nil {
		return r, err
	}
	return competitor{name: "Mosquitto", server: m.child, target: m.access.target(m.addr)}, nil
}

// newRelay starts this program as the relay.
func (b *bench) newRelay(ctx context.Context) (r competitor, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	r.name = "relay"
	ready := func(line string) (serves bool) {
		r.target.Addr, serves = strings.CutPrefix(line, "relaying on ")
		return serves
	}
	if r.server, err = launch(ctx, nil, ready, self, relayCommand); err == nil {
		b.started = append(b.started, r.server)
	}
	return r, err
}

// serveRelay runs the relay until ctx is done.
func serveRelay(ctx context.Context, out io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "relaying on %s\n", ln.Addr())
	return relay.Serve(ctx, ln)
}

func (a access) target(addr string) load.Target {
	return load.Target{Addr: addr, Username: loader, Password: a.password}
}
