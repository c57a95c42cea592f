package bridgestest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// Rig is a bridge of one kind at a broker in memory.
type Rig struct {
	*bridges.Engine
	Host   *bridges.Host
	Broker *Broker
	Kind   bridges.Kind

	tb testing.TB
}

// Start opens a bridge of a kind until the end of the test. If the store is nil it is a new one
// in memory.
func Start(tb testing.TB, k bridges.Kind, s bridges.Store) *Rig {
	tb.Helper()
	if s == nil {
		s = &Store{}
	}
	r := &Rig{Host: bridges.NewHost(s, []bridges.Kind{k}, slog.New(slog.DiscardHandler)), Broker: &Broker{}, Kind: k, tb: tb}
	r.open()
	tb.Cleanup(r.Stop)
	return r
}

func (r *Rig) open() {
	r.tb.Helper()
	r.Engine = r.Host.Open("b", "here", r.Broker)
	if err := r.Ready(context.Background()); err != nil {
		r.tb.Fatal(err)
	}
}

// Stop closes the engine.
func (r *Rig) Stop() {
	r.tb.Helper()
	if err := r.Close(context.Background()); err != nil {
		r.tb.Error(err)
	}
}

// Restart closes the engine and opens it again with the same store.
func (r *Rig) Restart() {
	r.tb.Helper()
	r.Stop()
	r.open()
}

// Set sets the configuration, which must be accepted.
func (r *Rig) Set(document string) {
	r.tb.Helper()
	if err := r.SetBridgeConfig(context.Background(), r.Kind.ID(), json.RawMessage(document)); err != nil {
		r.tb.Fatalf("set the configuration: %v", err)
	}
}

// Status returns the state of a connection.
func (r *Rig) Status(connection string) broker.BridgeStatus {
	r.tb.Helper()
	all, err := r.GetBridgeStatus(context.Background(), r.Kind.ID())
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, s := range all {
		if s.ConnectionName == connection {
			return s
		}
	}
	r.tb.Fatalf("there is no connection %q: %+v", connection, all)
	panic("unreachable")
}

// Until waits until the state of a connection satisfies a condition.
func (r *Rig) Until(connection, what string, holds func(broker.BridgeStatus) bool) {
	r.tb.Helper()
	Await(r.tb, func() error {
		if s := r.Status(connection); !holds(s) {
			return fmt.Errorf("%s: %+v %+v", what, s, *s.Stats)
		}
		return nil
	})
}

// DeadLetters returns all dead letters of a connection.
func (r *Rig) DeadLetters(connection string) (all []broker.DeadLetter) {
	r.tb.Helper()
	p, err := r.ListDeadLetters(context.Background(), r.Kind.ID(), connection, 0, -1)
	if err != nil {
		r.tb.Fatal(err)
	}
	for d, err := range p.Items {
		if err != nil {
			r.tb.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// Await waits until holds returns nil.
func Await(tb testing.TB, holds func() error) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatal("still not so: ", err)
		}
	}
}
