//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"signalbox/scripts/bench/load"
)

// profiling selects the load to profile, the program and the file to write. Without a
// load no profile is taken.
type profiling struct{ load, program, out string }

// profile plays a load with a product that profiles itself, after an unprofiled round.
func (b *bench) profile(ctx context.Context, want profiling) error {
	if want.load == creationsLoad {
		return b.profileCreations(ctx, want)
	}
	e, err := load.Find(want.load)
	if err != nil {
		return err
	}
	p, err := b.emptyProduct()
	if err != nil {
		return err
	}
	if p.access, err = writeLoadAccess(p.dir + ".json"); err != nil {
		return err
	}
	if err := b.importAccess(ctx, p); err != nil {
		return err
	}
	if p.child, err = launch(ctx, nil, p.readAddresses, want.program, p.dir, want.out); err != nil {
		return err
	}
	b.started = append(b.started, p)
	s, err := e.Load.Open(ctx, p.access.target(p.mqtt))
	if err != nil {
		return err
	}
	return errors.Join(b.observe(ctx, p.child, s, e), s.Close())
}

// observe plays all rounds between the signals that start and stop a profile.
func (b *bench) observe(ctx context.Context, c *child, s load.Session, e load.Scenario) error {
	if _, err := s.Play(ctx, e.Messages/b.share); err != nil {
		return err
	}
	if err := c.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	o := &outcome{competitor: competitor{name: "product, profiled", server: c}}
	for range b.rounds {
		o.run(ctx, s, e.Messages/b.share, true)
	}
	if err := errors.Join(o.err, c.cmd.Process.Signal(syscall.SIGUSR2)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(b.report.out, "%s: %s\n", e.Title, o)
	return err
}

// creationsLoad is the load of creations over the API by many callers.
const creationsLoad = "creations"

// profileCreations profiles the creations of measureRate.
func (b *bench) profileCreations(ctx context.Context, want profiling) error {
	p, err := b.newProduct(ctx, b.few, 0)
	if err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	base := p.url
	if p.child, err = launch(ctx, nil, p.readAddresses, want.program, p.dir, want.out); err != nil {
		return err
	}
	p.clients = strings.Replace(p.clients, base, p.url, 1)
	d := p.httpAPI(ctx, b.few)
	if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return err
	}
	got, err := compare(b.rounds, d.load(writers, b.bulk, ""))
	if err := errors.Join(err, p.cmd.Process.Signal(syscall.SIGUSR2)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.report.out, "creations over the API, %d callers: %s\n", writers, got[0])
	return err
}
