// Command signalbox manages MQTT brokers through an HTTP API, and can run a broker of
// its own. This package contains the commands, and is the only place that reads flags,
// environment and configuration files; package appliance is the service.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"signalbox/handlers/zones"
	"signalbox/router/cli"
)

// Stamped by scripts/build.
var version, commit, date string

func main() {
	zones.SetLocal(os.Getenv("TZ"))
	log.SetOutput(io.Discard) // net/http logs unsolicited data of servers, which may repeat a secret
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals // a second signal ends the process immediately
		os.Exit(cli.CodeFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// run runs a command and returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, err := commands(environ, stdin)
	if err == nil {
		root.SetArgs(args)
		root.SetIn(stdin)
		root.SetOut(stdout)
		root.SetErr(stderr)
		err = root.ExecuteContext(ctx)
	}
	if text := cli.Describe(err); text != "" {
		fmt.Fprintln(stderr, text)
	}
	return cli.ExitCode(err)
}
