//go:build linux

// Mqttload puts an MQTT broker under one load and reports the result: how many messages
// arrived, how fast, and what they cost the broker, if its process is named. A message
// that is lost, repeated or out of order ends it with an error.
//
// Of this module it must import scripts/bench/load only.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"signalbox/scripts/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mqttload:", err)
		os.Exit(1)
	}
}

// options are the command-line options.
type options struct {
	target   load.Target
	load     string
	messages int
	window   int
	rounds   int
	pid      int
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("mqttload", flag.ContinueOnError)
	flags.StringVar(&o.target.Addr, "addr", "127.0.0.1:1883", "host:port of the broker")
	flags.StringVar(&o.target.Username, "username", "", "username; empty for none")
	flags.StringVar(&o.target.Password, "password", os.Getenv("MQTTLOAD_PASSWORD"), "of the user; MQTTLOAD_PASSWORD in the environment otherwise")
	flags.StringVar(&o.load, "load", "pairs-0", "one of "+strings.Join(load.Names(), ", "))
	flags.IntVar(&o.messages, "messages", 0, "to publish in a round; 0 takes as many as fit the load")
	flags.IntVar(&o.window, "window", 0, "of each publisher, where the load has publishers that stay; 0 takes the load's own")
	flags.IntVar(&o.rounds, "rounds", 3, "that are told; one before them is not")
	flags.IntVar(&o.pid, "pid", 0, "process of the broker, whose processor time is told")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return o.play(ctx)
}

func (o options) play(ctx context.Context) error {
	e, err := load.Find(o.load)
	if err != nil {
		return err
	}
	if f, ok := e.Load.(load.Flow); ok && o.window > 0 {
		f.Window = o.window
		e.Load = f
	}
	s, err := e.Load.Open(ctx, o.target)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // the process ends
	messages := cmp.Or(o.messages, e.Messages)
	for round := range o.rounds + 1 {
		before := load.ProcessorTime(o.pid)
		pass, err := s.Play(ctx, messages)
		if err != nil {
			return err
		}
		if round > 0 {
			fmt.Println(describe(pass, load.ProcessorTime(o.pid)-before))
		}
	}
	return nil
}

func describe(p load.Pass, cpu time.Duration) string {
	text := fmt.Sprintf("%d delivered in %v, %.0f a second", p.Delivered, p.Took.Round(time.Millisecond), float64(p.Delivered)/p.Took.Seconds())
	if cpu > 0 {
		text += fmt.Sprintf(", %.2f CPU-seconds a million", cpu.Seconds()/float64(p.Delivered)*1e6)
	}
	if n := len(p.Latencies); n > 0 {
		text += fmt.Sprintf(", p50 %v, p99 %v", p.Latencies[n/2], p.Latencies[n*99/100])
	}
	return text
}
