//go:build linux

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/dynsec"
	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/relay"
)

// TestLoadAccess checks that the clients of the loads may do what they do, and no more.
func TestLoadAccess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.json")
	if _, err := writeLoadAccess(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content, warnings, err := dynsec.ParseDocument(bytes.NewReader(b))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got %v and %v, want neither", warnings, err)
	}
	d := content.Document()
	state, err := dynsec.Load(dynsec.LoadRecords{
		Roles: slices.Values(d.Roles),
		Clients: func(yield func(dynsec.ClientRecord) bool) {
			for _, c := range d.Clients {
				if !yield(dynsec.ClientRecord{Username: c.Username, Roles: c.Roles}) {
					return
				}
			}
		},
		Defaults: *d.Defaults,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		username string
		topic    string
		want     bool
	}{
		{loader, "bench/load/000", true},
		{loader, "other", false},
		{loader, "$CONTROL/stream-processing/v1", true},
		{loader, "$CONTROL/dynamic-security/v1", false},
		{load.RightsUser(3), load.PathOf(3, 0), true},
		{load.RightsUser(3), load.PathOf(3, load.RolesEach*load.ACLsEach-1), true},
		{load.RightsUser(3), load.PathOf(3, load.RolesEach*load.ACLsEach), false},
		{load.RightsUser(3), load.PathOf(4, 0), false},
	} {
		rights, ok := state.Rights(c.username)
		if !ok {
			t.Fatalf("there is no client %s", c.username)
		}
		if got := rights.Allowed(dynsec.PublishSend, "client", c.topic); got != c.want {
			t.Errorf("%s on %s: got %t, want %t", c.username, c.topic, got, c.want)
		}
	}
}

// TestCompareLoads plays a load with two relays, and checks the outcome of a competitor that
// ends.
func TestCompareLoads(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	b := &bench{scale: scale{rounds: 2, share: 1}, report: &report{out: &out}}
	self := &child{name: "self", cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	gone := &child{name: "gone", cmd: &exec.Cmd{Process: &os.Process{Pid: 1 << 22}}}
	target := load.Target{Addr: startRelay(t)}
	e := load.Scenario{Title: "a load", Load: load.Flow{Publishers: 2, Subscribers: 1, Topics: 1, QoS: 1, Window: 5}, Messages: 100}
	got, err := b.compare(t.Context(), e, competitor{name: "one", server: self, target: target}, competitor{name: "other", server: gone, target: target})
	if err != nil {
		t.Fatal(err)
	}
	one, other := got[0], got[1]
	if one.err != nil || len(one.cpu) != 2 || len(one.perSecond) != 2 || one.perSecond.median() <= 0 {
		t.Errorf("got %v and %v, want two rounds", one.cpu, one.err)
	}
	if other.err == nil {
		t.Error("a process that is gone has figures")
	}
	b.ratio(e.Title, one, one, atMost(1))
	b.ratio(e.Title, other, one, unbounded)
	if b.report.missed != 1 || !strings.Contains(out.String(), "1.00 ×") || !strings.Contains(out.String(), "a load: other") {
		t.Errorf("got %d missed in %s, want one of two", b.report.missed, out.String())
	}
}

func startRelay(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the relay ended: %v", err)
		}
	})
	return ln.Addr().String()
}

func TestFsync(t *testing.T) {
	t.Parallel()
	b := &bench{dir: t.TempDir()}
	if got, err := b.fsync(); err != nil || len(got) != 1 || got[0] <= 0 {
		t.Errorf("got %v and %v, want what one costs", got, err)
	}
}
