// Command signalbox manages MQTT brokers through an HTTP API, and can run a broker of
// its own. This package contains the commands, and is the only place that reads flags,
// environment and configuration files; package appliance is the service.
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
	codeFailed = 1 // the command failed
	codeUsage  = 2 // unknown command or flag
)

func main() {
	log.SetOutput(io.Discard) // net/http logs unsolicited data of servers, which may repeat a secret
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // a second signal ends the process immediately
		os.Exit(codeFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// usageError is an invalid command line.
type usageError struct{ error }

// run runs a command and returns the exit code.
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
