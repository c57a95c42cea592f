//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/scripts/bench/load"
)

// grower is something of which a broker has more and more.
type grower struct {
	what  string
	sizes []int
	// reach returns a product with that many, and the processor time, in µs, of adding one.
	reach      func(ctx context.Context, size int) (*product, float64, error)
	operations []operation
}

// operation is an operation whose processor time, in µs, may depend on the size.
type operation struct {
	what string
	cost func(ctx context.Context, p *product, size int) (float64, error)
}

// The number of rounds of messages at a size, and of messages in a round.
const (
	growthRounds   = 5
	growthMessages = 100_000
)

// growth is a run of growers.
type growth struct {
	*bench
	base competitor // a broker that has nothing
	rest float64    // its resident MiB
}

// measureGrowth measures what a message, one of what grows, and the start cost at growing sizes,
// and names the slope of each.
func (b *bench) measureGrowth(ctx context.Context) (err error) {
	most, err := mostConnections()
	if err != nil {
		return err
	}
	g := &growth{bench: b}
	if g.base, err = b.newCompetitor(ctx); err != nil {
		return err
	}
	if err := g.growIdle(ctx, most); err != nil {
		return fmt.Errorf("idle connections: %w", err)
	}
	if g.rest, err = g.base.server.stableMemory(ctx); err != nil {
		return err
	}
	for _, s := range []grower{g.subscriptions(), g.retainedMessages(), g.storedClients(), g.sessions()} {
		if err := g.grow(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return g.growTopics(ctx)
}

// upTo returns the sizes up to the largest one, which are fewer in a smoke run.
func (g *growth) upTo(largest int, sizes ...int) (list []int) {
	for _, size := range sizes {
		if size/g.share < largest/g.share {
			list = append(list, size/g.share)
		}
	}
	return append(list, largest/g.share)
}

// grow measures a product that is started anew at each size.
func (g *growth) grow(ctx context.Context, s grower) error {
	var got curves
	var p *product
	for _, size := range s.sizes {
		var adding float64
		var err error
		if p, adding, err = s.reach(ctx, size); err != nil {
			return err
		}
		took, err := p.restart(ctx)
		if err != nil {
			return err
		}
		used, err := p.cpu()
		if err != nil {
			return err
		}
		memory, err := p.stableMemory(ctx)
		if err != nil {
			return err
		}
		if err := g.message(ctx, &got, size, g.loaded(p)); err != nil {
			return err
		}
		addMemory(&got, size, memory-g.rest)
		got.add("CPU of adding one", "%.0f µs", size, adding)
		got.add("start", "%.2f s", size, took.Seconds())
		got.add("CPU of the start", "%.2f s", size, used.Seconds())
		for _, o := range s.operations {
			cost, err := o.cost(ctx, p, size)
			if err != nil {
				return fmt.Errorf("%s: %w", o.what, err)
			}
			got.add("CPU of "+o.what, "%.0f µs", size, cost)
		}
	}
	g.report.addCurves(s.what, got)
	return p.stop()
}

// leastGrowth is the growth of resident memory, in MiB, below which it cannot be told from the
// noise.
const leastGrowth = 4

func addMemory(to *curves, size int, mib float64) {
	if mib >= leastGrowth {
		to.add("memory of each", "%.0f B", size, mib*(1<<20)/float64(size))
	}
}

// loaded returns the load of messages that is played with a product.
func (g *growth) loaded(p *product) loadedCompetitor {
	return loadedCompetitor{competitor{name: "product", server: p.child, target: p.access.target(p.mqtt)}, growthLoad}
}

var growthLoad = load.Scenario{Load: load.Growth, Messages: growthMessages}

// message measures the processor time of a message, in turns with the broker that has nothing.
func (g *growth) message(ctx context.Context, to *curves, size int, grown loadedCompetitor) error {
	got, err := g.compareLoads(ctx, growthRounds, g.share, grown, loadedCompetitor{g.base, growthLoad})
	if err != nil {
		return err
	}
	for _, o := range got {
		if o.err != nil {
			return o.err
		}
	}
	to.add("CPU of a message", "%.1f µs", size, got[0].cpu.median())
	to.add("CPU of a message, to one of a broker without any", "%.2f ×", size, got[0].cpu.over(got[1].cpu).median())
	return nil
}

// spentBy returns the processor time of a program while do runs, in µs for each of that many.
func spentBy(c *child, number int, do func() error) (float64, error) {
	before, err := c.cpu()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := c.cpu()
	return micros(after-before) / float64(number), err
}

// mostConnections returns how many connections a process may have here, in whole thousands.
func mostConnections() (int, error) {
	const wanted, others = 500_000, 2 * spareFiles
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if now.Max < others+1_000 {
		return 0, fmt.Errorf("a process may open %d files only; want at least %d", now.Max, others+1_000)
	}
	return min(wanted, (int(now.Max)-others)/1_000*1_000), nil
}

// The time for which a broker is idle, and with how many connections its processor time has a limit.
const (
	idleTime    = 5 * time.Second
	idleLimited = 10_000
)

// growIdle measures idle connections, as many as a process may have here.
func (g *growth) growIdle(ctx context.Context, most int) error {
	if err := allowFiles(most); err != nil {
		return err
	}
	p, err := g.newCompetitor(ctx, fmt.Sprintf("SIGNALBOX_BROKER_MAX_CONNECTIONS=%d", most+spareFiles), "SIGNALBOX_BROKER_LIMITS_CONNECT_RATE=0")
	if err != nil {
		return err
	}
	before, err := p.memoryAfterFew(ctx)
	if err != nil {
		return err
	}
	var got curves
	for _, size := range g.upTo(most, 1_000, 4_000, 10_000, 100_000) {
		if err := g.idleAt(ctx, &got, p, size, before); err != nil {
			return err
		}
	}
	g.report.addCurves(fmt.Sprintf("idle connections, of which a process may have %d here", most), got)
	return p.server.stop()
}

// idleAt measures that many idle connections of a broker whose resident MiB without them are given.
func (g *growth) idleAt(ctx context.Context, to *curves, p competitor, size int, before float64) error {
	var idle *load.IdleClients
	adding, err := spentBy(p.server, size, func() (err error) {
		idle, err = load.ConnectIdle(ctx, p.target, size)
		return err
	})
	if err != nil {
		return err
	}
	defer idle.Close() //nolint:errcheck // it never fails
	after, err := p.server.stableMemory(ctx)
	if err != nil {
		return err
	}
	spent, err := spentBy(p.server, 1, func() error { return pause(ctx, idleTime) })
	if err != nil {
		return err
	}
	share := 100 * spent / micros(idleTime)
	if err := g.message(ctx, to, size, loadedCompetitor{p, growthLoad}); err != nil {
		return err
	}
	addMemory(to, size, after-before)
	to.add("CPU of a connect with a subscription", "%.0f µs", size, adding)
	to.add("CPU of the idle broker, of a core", "%.2f %%", size, share)
	if size == idleLimited {
		g.report.add("CPU of the broker idle with 10000 connections, of a core", "", samples{share}, "%.2f %%", atMost(0.5))
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
