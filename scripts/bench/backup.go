//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/scripts/bench/load"
)

// The load during which backups are made, each second.
const (
	publishedRate = 5_000
	changedRate   = 200
)

// backupLoad publishes at the rate to a persistent subscriber, so that each message is committed
// before its acknowledgement, which is measured.
var backupLoad = load.Flow{Publishers: 64, Subscribers: 1, Topics: 1, QoS: 1, Window: 20, Rate: publishedRate, Acked: true, Keep: true}

// measureBackup makes backups of a product with many retained messages while messages are
// published and clients are created, and restores the last one.
func (b *bench) measureBackup(ctx context.Context) error {
	a, err := writeLoadAccess(b.path("backup.json"))
	if err != nil {
		return err
	}
	p, err := b.newLoaded(ctx, a)
	if err != nil {
		return err
	}
	if err := p.makeToken(ctx); err != nil {
		return err
	}
	keeper, err := load.Retained{Topics: b.retained, QoS: 1}.Open(ctx, a.target(p.mqtt))
	if err != nil {
		return err
	}
	m := &backups{product: p, what: fmt.Sprintf("%d retained messages", b.retained)}
	if err := errors.Join(keeper.Close(), m.create(ctx, b.path("idle.backup"))); err != nil {
		return err
	}
	size, err := m.size()
	if err != nil {
		return err
	}
	b.report.add(m.what+": backup, nothing else is done", fmt.Sprintf("databases %.1f MiB, backup %.1f MiB", size[0], size[1]), m.took, "%.1f s", unbounded)
	m.took = nil
	if err := b.backUpUnderLoad(ctx, m); err != nil {
		return err
	}
	return b.restoreBackup(ctx, m)
}

// backups are those of one product.
type backups struct {
	*product
	what string
	file string  // the last one
	took samples // seconds
}

// create makes a backup with the product's own command.
func (m *backups) create(ctx context.Context, file string) error {
	began := time.Now()
	if err := m.command(ctx, m.dir, "backup", "create", file); err != nil {
		return err
	}
	m.took, m.file = append(m.took, time.Since(began).Seconds()), file
	return nil
}

// command runs a local command for a data directory.
func (m *backups) command(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, m.binary, args...)
	cmd.Env = []string{"SIGNALBOX_DATA_DIR=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}

// size returns the MiB of the databases with their logs, and of the backup.
func (m *backups) size() (mib [2]float64, err error) {
	databases, err := filepath.Glob(filepath.Join(m.dir, "*.db*"))
	if err != nil {
		return mib, err
	}
	for i, files := range [][]string{databases, {m.file}} {
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return mib, err
			}
			mib[i] += float64(info.Size()) / (1 << 20)
		}
	}
	return mib, nil
}

// backUpUnderLoad plays the load in rounds without and with backups, one after the other, while
// clients are created all the time.
func (b *bench) backUpUnderLoad(ctx context.Context, m *backups) (err error) {
	s, err := backupLoad.Open(ctx, m.access.target(m.mqtt))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	changes := m.startChanges(ctx)
	quiet, busy := &outcome{competitor: competitor{name: "without a backup", server: m.child}}, &outcome{competitor: competitor{name: "with backups", server: m.child}}
	messages, n := max(1, b.backupSeconds)*publishedRate, 0
	for round := range b.rounds + 1 {
		quiet.run(ctx, s, messages, round > 0)
		stop := m.repeat(ctx, func() string { n++; return b.path(fmt.Sprintf("%d.backup", n)) })
		busy.run(ctx, s, messages, round > 0)
		err = errors.Join(err, stop())
	}
	rate, failed := changes()
	title := fmt.Sprintf("%d messages a second, QoS 1, persistent subscriber, and %d clients created a second", publishedRate, changedRate)
	if err := errors.Join(err, failed); err != nil || b.failed(title, quiet) || b.failed(title, busy) {
		return err
	}
	b.report.add(title+": backup", m.what, m.took, "%.1f s", unbounded)
	b.report.add(title+": clients created", "", samples{rate}, "%.0f /s", unbounded)
	b.report.add(title+": p50 until PUBACK, with : without a backup", fmt.Sprintf("%s; %s", busy, quiet), busy.p50.over(quiet.p50), "%.2f ×", unbounded)
	b.report.add(title+": p99 until PUBACK, with : without a backup", "", busy.p99.over(quiet.p99), "%.2f ×", atMost(2))
	return nil
}

// repeat makes one backup after the other until stop is called, which waits for the last one. Only
// that one is kept.
func (m *backups) repeat(ctx context.Context, file func() string) (stop func() error) {
	var ends atomic.Bool
	var running sync.WaitGroup
	var err error
	running.Go(func() {
		for err == nil && !ends.Load() {
			last := m.file
			if err = m.create(ctx, file()); err == nil {
				err = os.Remove(last)
			}
		}
	})
	return func() error { ends.Store(true); running.Wait(); return err }
}

// startChanges creates clients at the rate until stop is called, which returns how many were created
// a second.
func (m *backups) startChanges(ctx context.Context) (stop func() (rate float64, err error)) {
	const callers = 32
	ctx, cancel := context.WithCancel(ctx)
	due, began := make(chan int), time.Now()
	var done atomic.Int64
	var running sync.WaitGroup
	errs := make([]error, callers)
	for caller := range callers {
		running.Go(func() {
			for n := range due {
				body := fmt.Sprintf(`{"username":"change-%d"}`, n)
				if errs[caller] = m.call(context.WithoutCancel(ctx), http.MethodPost, m.clients, body, http.StatusNoContent, io.Discard); errs[caller] != nil {
					cancel()
					return
				}
				done.Add(1)
			}
		})
	}
	running.Go(func() {
		defer close(due)
		every := time.NewTicker(time.Second / changedRate)
		defer every.Stop()
		for n := 0; ; n++ {
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
			select {
			case due <- n:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() (float64, error) {
		rate := float64(done.Load()) / time.Since(began).Seconds()
		cancel()
		running.Wait()
		return rate, errors.Join(errs...)
	}
}

// restoreBackup verifies the last backup, restores it to an empty directory, and starts it there.
func (b *bench) restoreBackup(ctx context.Context, m *backups) error {
	if err := m.product.stop(); err != nil {
		return err
	}
	var verified, restored, started samples
	for range min(b.rounds, 3) {
		began := time.Now()
		if err := m.command(ctx, m.dir, "backup", "verify", m.file); err != nil {
			return err
		}
		verified = append(verified, time.Since(began).Seconds())
		again := *m.product
		again.dir, began = b.path("restored"), time.Now()
		if err := m.command(ctx, again.dir, "restore", m.file); err != nil {
			return err
		}
		restored, began = append(restored, time.Since(began).Seconds()), time.Now()
		if err := again.start(ctx); err != nil {
			return err
		}
		started = append(started, time.Since(began).Seconds())
		if err := errors.Join(again.stop(), os.RemoveAll(again.dir)); err != nil {
			return err
		}
	}
	b.report.add(m.what+": verify", "", verified, "%.1f s", unbounded)
	b.report.add(m.what+": restore, which verifies first", "", restored, "%.1f s", unbounded)
	b.report.add(m.what+": start of the restored service", "", started, "%.1f s", unbounded)
	return nil
}
