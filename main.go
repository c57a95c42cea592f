// Command signalbox manages MQTT brokers through an HTTP API, and can run a
// broker of its own. This package holds the commands, and is the only place that
// reads flags, environment and configuration files; what the service is made
// of is in package appliance.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Stamped by scripts/build.
var version, commit, date string

// Exit codes.
const (
	codeFailed = 1 // the command could not be done
	codeUsage  = 2 // there is no such command or flag
)

func main() {
	log.SetOutput(io.Discard) // net/http logs what a server sends unasked, which may repeat a secret
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // a second signal ends the process at once
		os.Exit(codeFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// usageError is about a command line that cannot be understood.
type usageError struct{ error }

// run is the whole program; it returns the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := commands(environ)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "signalbox: %v\n", err)
	if _, usage := errors.AsType[usageError](err); usage {
		return codeUsage
	}
	return codeFailed
}

func versionText() string {
	if version != "" {
		return fmt.Sprintf("%s (commit %s, %s)", version, commit, date)
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
