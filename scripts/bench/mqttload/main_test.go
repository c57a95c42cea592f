//go:build linux

package main

import (
	"context"
	"net"
	"testing"
	"time"

	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/relay"
)

func TestRun(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, ln) }()
	if err := run(t.Context(), []string{"-addr", ln.Addr().String(), "-load", "fan-in-1", "-messages", "100", "-rounds", "1", "-window", "3"}); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"-load", "none"}); err == nil {
		t.Error("a load that is not there is played")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	p := load.Pass{Delivered: 2_000, Took: time.Second, Latencies: []time.Duration{1, 2, 3, 4}}
	if got, want := describe(p, time.Millisecond), "2000 delivered in 1s, 2000 a second, 0.50 CPU-seconds a million, p50 3ns, p99 4ns"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
