//go:build linux

// Bench measures what the product promises about its speed, side by side with
// its peers in one run: Debian's Mosquitto with dynamic security, and as the
// limit the plainest program that could do the job. Ratios count, because they
// mean the same on every machine; beside each stands its limit.
//
// Of this module it must import the vocabulary in broker and broker/dynsec only:
// it drives the built binary through the doors that users have. It needs Linux
// for the processor time and the memory of another process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// longest bounds a whole run.
const longest = 10 * time.Minute

// measurement is one part of a run that can be selected by its name.
type measurement struct {
	name string
	do   func(*bench, context.Context) error
}

// measurements is what a full run does. Those that want a fresh process come
// before those that load it.
var measurements = []measurement{
	{"idle", (*bench).measureIdle},
	{"start", (*bench).measureStart},
	{"stream", (*bench).measureStream},
	{"get", (*bench).measureGet},
	{"page", (*bench).measurePage},
	{"create", (*bench).measureCreate},
	{"rate", (*bench).measureRate},
	{"acl", (*bench).measureACL},
	{"devices", (*bench).measureDevices},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, longest)
	var err error
	if len(os.Args) > 1 && os.Args[1] == limitCommand {
		err = serveLimit(ctx, os.Args[2:], os.Stdout)
	} else {
		err = run(ctx, os.Args[1:])
	}
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errMissed says that a figure is beyond its limit.
var errMissed = errors.New("a limit was missed")

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	product := flags.String("product", "", "the built binary to measure")
	only := flags.String("only", "", "measure only these, separated by commas: "+strings.Join(names(), ", "))
	quick := flags.Bool("quick", false, "a smoke run: few calls on small stores, whose figures mean nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	b, err := newBench(*product, *quick)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.report.head(environment(ctx, *product))
	for _, m := range chosen {
		if err := m.do(b, ctx); err != nil {
			return fmt.Errorf("measure %s: %w", m.name, err)
		}
	}
	if b.report.missed > 0 {
		return errMissed
	}
	return nil
}

func names() (list []string) {
	for _, m := range measurements {
		list = append(list, m.name)
	}
	return list
}

// choose gives the measurements with these names, all for "".
func choose(only string) ([]measurement, error) {
	if only == "" {
		return measurements, nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(), name)
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, measurements[i])
	}
	return chosen, nil
}

// environment describes what is measured, and on what.
func environment(ctx context.Context, product string) string {
	version := firstLine(ctx, product, "version")
	peer := "no mosquitto"
	if binary, err := findMosquitto(); err == nil {
		peer = firstLine(ctx, binary, "-h")
	}
	load, _ := os.ReadFile("/proc/loadavg") //nolint:errcheck // only told
	return fmt.Sprintf("%s; %s; %s, %d CPUs; load before: %s", version, peer, runtime.Version(), runtime.NumCPU(),
		strings.Join(strings.Fields(string(load))[:1], ""))
}

// bench is one run: its sizes, what it has started so far, and its results.
type bench struct {
	scale
	report  *report
	binary  string // of the product
	dir     string // scratch, removed at the end
	large   *product
	small   *product
	plain   *plain
	started []interface{ stop() error }
}

// scale is how much is done. Rounds are interleaved, so that all subjects meet
// the same weather.
type scale struct {
	rounds      int
	few, many   int // stored clients between which a cost must not differ
	reads       int // calls a round
	pages       int
	creations   int
	bulk        int // creations a round with 16 callers
	hashed      int // the same with passwords
	peerChanges int // creations a round in Mosquitto, which rewrites its file for each
	checks      int
	devices     int
}

var (
	full = scale{rounds: 5, few: 1_000, many: 100_000, reads: 20_000, pages: 3_000, creations: 1_000,
		bulk: 5_000, hashed: 600, peerChanges: turns, checks: 2_000_000, devices: 5_000}
	smoke = scale{rounds: 1, few: 100, many: 2_000, reads: 500, pages: 100, creations: 50,
		bulk: 200, hashed: 32, peerChanges: turns, checks: 100_000, devices: 100}
)

func newBench(binary string, quick bool) (*bench, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("the product to measure: %w", err)
	}
	dir, err := os.MkdirTemp("", "bench-*")
	if err != nil {
		return nil, err
	}
	b := &bench{scale: full, report: &report{out: os.Stdout}, binary: binary, dir: dir}
	if quick {
		b.scale = smoke
	}
	return b, nil
}

// close stops whatever still runs, the last first.
func (b *bench) close() error {
	var errs []error
	for _, s := range slices.Backward(b.started) {
		errs = append(errs, s.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// path names a new place in the scratch directory.
func (b *bench) path(name string) string {
	return filepath.Join(b.dir, fmt.Sprintf("%d-%s", len(b.started), name))
}
