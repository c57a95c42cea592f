//go:build linux

// Bench measures what the product promises about its speed, side by side with its peers
// in one run: Debian's Mosquitto with dynamic security, and as the limit the plainest
// program that could do the job. Ratios matter, because they are comparable between
// machines; the limit of each is in the same line.
//
// Of this module it must import only the types in broker and broker/dynsec, and its own
// packages below: it uses the built binary through its public interfaces. It needs
// Linux for the processor time and the memory of another process.
package main

import (
	"cmp"
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
const longest = 30 * time.Minute

// measurement is a part of a run, selected by its name or by its group.
type measurement struct {
	group, name string
	do          func(*bench, context.Context) error
}

// The groups: the management API and $CONTROL, the console, messages, streams, clusters,
// bridges, and what grows.
const (
	management = "management"
	webConsole = "console"
	engine     = "engine"
	streams    = "streams"
	clusters   = "cluster"
	bridges    = "bridges"
	growing    = "growing"
)

// measurements are those of a full run. Those that need a fresh process precede those
// that load it.
var measurements = []measurement{
	{management, "idle", (*bench).measureIdle},
	{management, "start", (*bench).measureStart},
	{management, "stream", (*bench).measureStream},
	{management, "get", (*bench).measureGet},
	{management, "page", (*bench).measurePage},
	{webConsole, "pages", (*bench).measurePages},
	{webConsole, "open-pages", (*bench).measureOpenPages},
	{webConsole, "beside-pages", (*bench).measureBesidePages},
	{management, "create", (*bench).measureCreate},
	{management, "rate", (*bench).measureRate},
	{management, "bulk", (*bench).measureBulk},
	{management, "acl", (*bench).measureACL},
	{management, "devices", (*bench).measureDevices},
	{engine, "connections", (*bench).measureConnections},
	{engine, "connect", (*bench).measureConnect},
	{engine, "flows", (*bench).measureFlows},
	{engine, "latency", (*bench).measureLatency},
	{engine, "crowd", (*bench).measureCrowd},
	{engine, "rights", (*bench).measureRights},
	{engine, "retained", (*bench).measureRetained},
	{engine, "backlog", (*bench).measureBacklog},
	{engine, "durable", (*bench).measureDurable},
	{engine, "backup", (*bench).measureBackup},
	{streams, "republish", (*bench).measureRepublish},
	{streams, "persist", (*bench).measurePersist},
	{streams, "replay", (*bench).measureReplay},
	{streams, "bystanders", (*bench).measureBystanders},
	{clusters, "agreement", (*bench).measureAgreement},
	{clusters, "shared", (*bench).measureShared},
	{clusters, "failover", (*bench).measureFailover},
	{clusters, "replicated", (*bench).measureReplicated},
	{clusters, "takeover", (*bench).measureTakeover},
	{clusters, "reconnect", (*bench).measureReconnect},
	{clusters, "crossing", (*bench).measureCrossing},
	{bridges, "overhead", (*bench).measureOverhead},
	{bridges, "publishers", (*bench).measurePublishers},
	{bridges, "drain", (*bench).measureDrain},
	{bridges, "brokers", (*bench).measureBrokers},
	{growing, "growth", (*bench).measureGrowth},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, longest)
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == limitCommand:
		err = serveLimit(ctx, os.Args[2:], os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == relayCommand:
		err = serveRelay(ctx, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == sinkCommand:
		err = serveSinks(ctx, os.Stdout)
	default:
		err = run(ctx, os.Args[1:])
	}
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errMissed reports that a figure exceeds its limit.
var errMissed = errors.New("a limit was missed")

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	product := flags.String("product", "", "the built binary to measure")
	only := flags.String("only", "", "measure only these, separated by commas: "+strings.Join(names(), ", ")+
		"; or one of the groups "+strings.Join([]string{management, webConsole, engine, streams, clusters, bridges, growing}, ", "))
	quick := flags.Bool("quick", false, "a smoke run: few calls on small stores, whose figures mean nothing")
	mostRetained := flags.Int("most-retained", 0, "retained messages at the end of growth; 0 is 1,000,000")
	var want profiling
	flags.StringVar(&want.load, "profile", "", "profile this load of messages, or "+creationsLoad+", instead of measuring")
	flags.StringVar(&want.program, "profiled", "", "the program that profiles itself")
	flags.StringVar(&want.out, "out", "", "where it writes its profile")
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
	b.mostRetained = cmp.Or(*mostRetained, b.mostRetained)
	if want.load != "" {
		return b.profile(ctx, want)
	}
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

// choose returns the measurements with these names or of these groups, all for "".
func choose(only string) ([]measurement, error) {
	if only == "" {
		return measurements, nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(only, ",") {
		before := len(chosen)
		for _, m := range measurements {
			if m.name == name || m.group == name {
				chosen = append(chosen, m)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no measurement %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	return chosen, nil
}

// environment describes what is measured, and on what machine.
func environment(ctx context.Context, product string) string {
	version := firstLine(ctx, product, "version")
	peer := "no mosquitto"
	if binary, err := findMosquitto(); err == nil {
		peer = firstLine(ctx, binary, "-h")
	}
	load, _ := os.ReadFile("/proc/loadavg") //nolint:errcheck // for information only
	return fmt.Sprintf("%s; %s; %s, %d CPUs; load before: %s", version, peer, runtime.Version(), runtime.NumCPU(),
		strings.Join(strings.Fields(string(load))[:1], ""))
}

// bench is one run: its sizes, the programs that it has started, and its results.
type bench struct {
	scale
	report  *report
	binary  string // of the product
	dir     string // scratch, removed at the end
	large   *product
	small   *product
	plain   *plain
	shared  *competitors
	started []interface{ stop() error }
}

// scale is the size of a run. Rounds are interleaved, so that all subjects run under
// the same conditions.
type scale struct {
	rounds      int
	few, many   int // numbers of stored clients between which a cost must not differ
	reads       int // calls in a round
	pages       int
	creations   int
	bulk        int // creations in a round with 16 callers
	projects    int // created in such a round
	hashed      int // the same with passwords
	peerChanges int // creations in a round with Mosquitto, which rewrites its file for each
	checks      int
	devices     int
	share       int // a round has one of share messages of a load
	idle        int // idle connections
	connects    int // connects in a round
	waiting     int // messages in the queue of a bridge
	drained     int // messages that it delivers in a round
	retained    int // messages in a backup

	mostRetained int // messages at the end of growth

	backupSeconds int // a round of the load during which backups are made
}

var (
	full = scale{rounds: 5, few: 1_000, many: 100_000, reads: 20_000, pages: 3_000, creations: 1_000,
		bulk: 5_000, projects: 1_000, hashed: 600, peerChanges: turns, checks: 2_000_000, devices: 5_000, share: 1, idle: 10_000, connects: 10_000,
		waiting: 1_000_000, drained: 200_000, retained: 1_000_000, mostRetained: 1_000_000, backupSeconds: 15}
	smoke = scale{rounds: 1, few: 100, many: 2_000, reads: 500, pages: 100, creations: 50,
		bulk: 200, projects: 64, hashed: 32, peerChanges: turns, checks: 100_000, devices: 100, share: 20, idle: 500, connects: 200,
		waiting: 20_000, drained: 5_000, retained: 10_000, mostRetained: 1_000_000, backupSeconds: 1}
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

// close stops all programs that still run, in reverse order.
func (b *bench) close() error {
	var errs []error
	for _, s := range slices.Backward(b.started) {
		errs = append(errs, s.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// path returns a new path in the scratch directory.
func (b *bench) path(name string) string {
	return filepath.Join(b.dir, fmt.Sprintf("%d-%s", len(b.started), name))
}
