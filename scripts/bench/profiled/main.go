//go:build linux

// Profiled is the service in a process that profiles itself: it consists of the same
// parts as the binary, and writes a profile of what happens between the signals SIGUSR1
// and SIGUSR2.
//
// Of this module it must import router/appliance only. It is for developers; the
// product does not contain it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"

	"signalbox/router/appliance"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

// run serves on free ports until ctx is done.
func run(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return errors.New("want DATA_DIR OUT")
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(asked)
	c := appliance.DefaultConfig()
	c.DataDir, c.HTTP.Listen, c.Broker.Listen = args[0], "127.0.0.1:0", "127.0.0.1:0"
	a, err := appliance.Start(ctx, c, appliance.Program{Version: "profiled"}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	a.Greet(os.Stdout, false)
	return profile(ctx, asked, args[1])
}

// profile writes the processor time between the two signals to out, and the allocations
// since the start to out.allocs.
func profile(ctx context.Context, asked <-chan os.Signal, out string) error {
	if !await(ctx, asked, syscall.SIGUSR1) {
		return nil
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	await(ctx, asked, syscall.SIGUSR2)
	pprof.StopCPUProfile()
	if err := errors.Join(f.Close(), writeAllocations(out+".allocs")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// await waits for a signal, and reports whether it arrived before ctx was done.
func await(ctx context.Context, asked <-chan os.Signal, wanted os.Signal) bool {
	for {
		select {
		case got := <-asked:
			if got == wanted {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

func writeAllocations(out string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
