//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"
)

// settledMemory waits until the memory of the process is stable and returns its resident MiB.
func (c *child) settledMemory() (mib float64, err error) {
	time.Sleep(2 * time.Second)
	return c.memory("VmRSS")
}

// measureIdle measures the memory of an idle process.
func (b *bench) measureIdle(ctx context.Context) error {
	large, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	fresh, err := b.emptyProduct()
	if err != nil {
		return err
	}
	if err := fresh.start(ctx); err != nil {
		return err
	}
	b.started = append(b.started, fresh)
	for _, s := range []struct {
		of string
		p  *product
	}{{"just installed", fresh}, {fmt.Sprintf("%d clients", b.many), large}} {
		var resident samples
		for range b.rounds {
			if _, err := s.p.restart(ctx); err != nil {
				return err
			}
			mib, err := s.p.settledMemory()
			if err != nil {
				return err
			}
			resident = append(resident, mib)
		}
		b.report.add("idle, "+s.of+": resident memory", "", resident, "%.1f MiB", atMost(60))
	}
	return nil
}

// measureStart measures the start with many stored clients.
func (b *bench) measureStart(ctx context.Context) error {
	p, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	var seconds, cpu samples
	for range b.rounds {
		took, err := p.restart(ctx)
		if err != nil {
			return err
		}
		used, err := p.cpu()
		if err != nil {
			return err
		}
		seconds, cpu = append(seconds, took.Seconds()), append(cpu, used.Seconds())
	}
	what := fmt.Sprintf("start with %d clients: from exec to the first 200 of /readyz", b.many)
	b.report.add(what, fmt.Sprintf("CPU %.2f s", cpu.median()), seconds, "%.2f s", atMost(1))
	return nil
}

// measureDevices connects all devices at once after a restart, while no credentials are
// cached. The peer has the same hashes.
func (b *bench) measureDevices(ctx context.Context) error {
	p, err := b.newProduct(ctx, b.devices, costly)
	if err != nil {
		return err
	}
	var took, cpu, bare samples
	for range min(b.rounds, 3) {
		if _, err := p.restart(ctx); err != nil {
			return err
		}
		t, c, err := reconnectDevices(ctx, p.child, b.devices, p.mqtt, p.access.password)
		if err != nil {
			return err
		}
		h, err := hashing(b.devices)
		if err != nil {
			return err
		}
		took, cpu, bare = append(took, t), append(cpu, c), append(bare, h)
	}
	what := fmt.Sprintf("%d devices back after a restart, hashes of %d iterations", b.devices, costly)
	b.report.add(what, fmt.Sprintf("CPU %.1f s", cpu.median()), took, "%.1f s", atMost(10))
	b.report.add("the same: CPU, product : bare PBKDF2", fmt.Sprintf("CPU %.1f s; %.1f s", cpu.median(), bare.median()),
		cpu.over(bare), "%.2f ×", unbounded)
	return b.peerDevices(ctx)
}

// hashing returns the processor time, in seconds, of the password hashes of that many
// devices alone.
func hashing(devices int) (seconds float64, err error) {
	const probe = 100
	self := &child{name: "bench", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	before, err := self.cpu()
	if err != nil {
		return 0, err
	}
	for range probe {
		if _, err := encodePassword("password", costly); err != nil {
			return 0, err
		}
	}
	after, err := self.cpu()
	return (after - before).Seconds() / probe * float64(devices), err
}

// peerDevices connects a fifth as many to Mosquitto, which hashes one password after
// the other and serves no client in the meantime.
func (b *bench) peerDevices(ctx context.Context) error {
	devices := b.devices / 5
	m, err := b.newMosquitto(ctx, devices, costly)
	if err != nil {
		return err
	}
	took, cpu, err := reconnectDevices(ctx, m.child, devices, m.addr, m.access.password)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d devices back in Mosquitto with such hashes", devices)
	b.report.add(what, fmt.Sprintf("CPU %.1f s", cpu), samples{took}, "%.1f s", unbounded)
	return nil
}

// reconnectDevices connects that many devices at once and waits until the broker has admitted
// the last one. It returns the seconds that this took and the broker's processor time.
// A device that fails retries a little later.
func reconnectDevices(ctx context.Context, server *child, devices int, addr, password string) (took, cpu float64, err error) {
	before, err := server.cpu()
	if err != nil {
		return 0, 0, err
	}
	wires := make([]*wire, devices)
	defer func() {
		for _, w := range wires {
			if w != nil {
				w.conn.Close()
			}
		}
	}()
	began := time.Now()
	_, err = runCalls(devices, devices, func(_, n int) (err error) {
		wires[n], err = persist(ctx, addr, clientName(n), password)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	took = time.Since(began).Seconds()
	after, err := server.cpu()
	return took, (after - before).Seconds(), err
}

func persist(ctx context.Context, addr, name, password string) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, startStopTimeout)
	defer cancel()
	for {
		w, err := dial(ctx, addr, name, name, password)
		if err == nil {
			return w, nil
		}
		again := time.NewTimer(time.Duration(100+rand.IntN(400)) * time.Millisecond)
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}
