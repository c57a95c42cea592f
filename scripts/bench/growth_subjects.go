//go:build linux

package main

import (
	"context"
	"os"

	"signalbox/broker/dynsec"
	"signalbox/scripts/bench/load"
)

// unlimited switches off the quotas that what grows would reach.
func unlimited() (settings []string) {
	for _, of := range []string{"QUOTA", "USER_QUOTA"} {
		for _, quota := range []string{"SESSIONS", "SESSION_BYTES", "SUBSCRIPTION_BYTES", "RETAINED_MESSAGES", "RETAINED_BYTES"} {
			settings = append(settings, "SIGNALBOX_BROKER_"+of+"_"+quota+"=0")
		}
	}
	return settings
}

// adder returns a reach that adds to one product over MQTT, which is empty at first.
func (g *growth) adder(add func(ctx context.Context, t load.Target, from, to int) error) func(context.Context, int) (*product, float64, error) {
	var p *product
	stored := 0
	return func(ctx context.Context, size int) (*product, float64, error) {
		if p == nil {
			a, err := writeLoadAccess(g.path("load.json"))
			if err != nil {
				return nil, 0, err
			}
			if p, err = g.newLoaded(ctx, a, unlimited()...); err != nil {
				return nil, 0, err
			}
		}
		each, err := spentBy(p.child, size-stored, func() error { return add(ctx, p.access.target(p.mqtt), stored, size) })
		stored = size
		return p, each, err
	}
}

// subscriptions grows the subscriptions of a few clients that are away.
func (g *growth) subscriptions() grower {
	return grower{what: "subscriptions", sizes: g.upTo(1_000_000, 1_000, 10_000, 100_000), reach: g.adder(load.AddSubscriptions)}
}

// retainedMessages grows the retained messages.
func (g *growth) retainedMessages() grower {
	const calls = 1_000
	read := func(wildcard bool) func(context.Context, *product, int) (float64, error) {
		return func(ctx context.Context, p *product, size int) (float64, error) {
			return spentBy(p.child, calls, func() error {
				return load.ReadRetained(ctx, p.access.target(p.mqtt), size, calls, wildcard)
			})
		}
	}
	return grower{what: "retained messages", sizes: g.upTo(g.mostRetained, 1_000, 10_000, 100_000, 1_000_000), reach: g.adder(load.AddRetained),
		operations: []operation{{"a subscription that gets one", read(false)}, {"the same with a wildcard", read(true)}}}
}

// sessions grows the sessions of clients that are away.
func (g *growth) sessions() grower {
	return grower{what: "sessions of clients that are away", sizes: g.upTo(100_000, 1_000, 10_000), reach: g.adder(load.AddSessions)}
}

// storedClients grows the clients of access control, with a data directory for each size.
func (g *growth) storedClients() grower {
	const creations = 500
	var last *product
	return grower{
		what: "stored clients", sizes: g.upTo(1_000_000, 1_000, 10_000, 100_000),
		reach: func(ctx context.Context, size int) (*product, float64, error) {
			if last != nil {
				if err := last.stop(); err != nil {
					return nil, 0, err
				}
			}
			a, err := writeClientsAndLoader(g.path("clients.json"), size)
			if err != nil {
				return nil, 0, err
			}
			last, err = g.emptyProduct()
			if err != nil {
				return nil, 0, err
			}
			last.access = a
			used, err := g.timedImport(ctx, last)
			if err != nil {
				return nil, 0, err
			}
			if err := last.start(ctx); err != nil {
				return nil, 0, err
			}
			g.started = append(g.started, last)
			return last, used / float64(size), nil
		},
		operations: []operation{{"a creation over the API", func(ctx context.Context, p *product, size int) (float64, error) {
			if err := p.makeToken(ctx); err != nil {
				return 0, err
			}
			got, err := compare(1, p.httpAPI(ctx, size).load(1, creations, ""))
			if err != nil {
				return 0, err
			}
			return got[0].cpu.median(), nil
		}}},
	}
}

// writeClientsAndLoader writes the access control of that many clients, and of the loads.
func writeClientsAndLoader(file string, clients int) (access, error) {
	a, err := writeLoadAccess(file)
	if err != nil {
		return a, err
	}
	hash, err := encodePassword(a.password, cheap)
	if err != nil {
		return a, err
	}
	d := configuration(clients, hash, "")
	d.Roles = append(d.Roles, loaderRole())
	d.Clients = append(d.Clients, dynsec.DocumentClient{Username: loader, EncodedPassword: hash, Roles: holds(loader)})
	b, err := d.Marshal()
	if err != nil {
		return a, err
	}
	return a, os.WriteFile(file, b, 0o600)
}

// growTopics publishes to more and more topics. No message of theirs is retained.
func (g *growth) growTopics(ctx context.Context) error {
	p, err := g.newCompetitor(ctx)
	if err != nil {
		return err
	}
	var got curves
	for _, size := range g.upTo(1_000_000, 1_000, 10_000, 100_000) {
		flow := load.Growth
		flow.Paths = size
		grown := loadedCompetitor{p, load.Scenario{Load: flow, Messages: max(growthMessages, size*g.share)}}
		if err := g.message(ctx, &got, size, grown); err != nil {
			return err
		}
		memory, err := p.server.stableMemory(ctx)
		if err != nil {
			return err
		}
		got.add("growth of resident memory", "%.0f MiB", size, memory-g.rest)
	}
	g.report.addCurves("topics with messages", got)
	return p.server.stop()
}
