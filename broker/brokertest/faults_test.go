package brokertest_test

import (
	"context"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// fault is a fault while a role is created. Reached states whether the command reaches the broker
// all the same, ends whether the fault ends the connection. If it does not, the caller cancels.
type fault struct {
	name    string
	strike  func(*brokertest.Proxy) <-chan struct{}
	reached bool
	ends    bool
}

var faults = []fault{
	{"cut before the command arrives", func(p *brokertest.Proxy) <-chan struct{} { return p.CutBefore(brokertest.Publish) }, false, true},
	{"cut after the command arrived", func(p *brokertest.Proxy) <-chan struct{} { return p.CutAfter(brokertest.Publish) }, true, true},
	{"the answer is dropped", (*brokertest.Proxy).DropAnswers, true, false},
	{"everything is delayed beyond suite.HangLimit", (*brokertest.Proxy).Hold, true, false},
	{"garbage in place of the answer", func(p *brokertest.Proxy) <-chan struct{} {
		return p.Garbage([]byte{0x30, 0xff, 0xff, 0xff, 0xff, 1})
	}, true, true},
}

// TestFaults injects faults between the remote driver and each kind of broker: a command without
// a response is unconfirmed, whatever its outcome, and afterwards everything works again.
func TestFaults(t *testing.T) {
	t.Parallel()
	subjects := map[string]func(t *testing.T) broker.Target{
		"mosquitto": func(t *testing.T) broker.Target { return brokertest.Mosquitto(t).Target() },
		"embedded":  func(t *testing.T) broker.Target { _, target := embed(t); return target },
	}
	for name, open := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := open(t)
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) { f.play(t, target) })
			}
		})
	}
}

func (f fault) play(t *testing.T, target broker.Target) {
	p := brokertest.NewProxy(t, target.URL[len("mqtt://"):])
	past := target
	past.URL = p.URL
	b := dial(t, past)
	role := "role made while " + f.name

	struck := f.strike(p)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	go func() {
		select {
		case <-struck:
			if !f.ends {
				giveUp()
			}
		case <-ctx.Done(): // the call is cancelled
		}
	}()
	err := b.CreateRole(ctx, broker.RoleSpec{RoleName: role})
	if got := broker.KindOf(err); err == nil || got != broker.Unconfirmed {
		t.Errorf("got %v of kind %d, want kind %d", err, got, broker.Unconfirmed)
	}
	p.Pass()

	brokertest.WaitFor(t, "the driver is connected again", func() bool { return b.Ready(t.Context()) == nil })
	if err := b.CreateRole(t.Context(), broker.RoleSpec{RoleName: role + ", once more"}); err != nil {
		t.Errorf("the next command: %v", err)
	}
	err = b.CreateRole(t.Context(), broker.RoleSpec{RoleName: role})
	if reached := err != nil; reached != f.reached {
		t.Errorf("the broker got the command: %t, want %t (%v)", reached, f.reached, err)
	}
}
