//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// writers is how many callers write at a time where the rate counts.
const writers = 16

// door is a way to create clients and to delete them.
type door struct {
	name           string
	server         *child
	stored         int // clients there already
	create, remove call
	wires          []*wire // of the callers, for $CONTROL
}

// close ends the callers' connections.
func (d door) close() {
	for _, w := range d.wires {
		w.conn.Close()
	}
}

// newClient names the n-th client to create, somewhere among those stored.
func (d door) newClient(n int) string {
	return fmt.Sprintf("%s-new-%d", clientName(n*7919%d.stored), n)
}

// apiDoor goes through the HTTP API. An empty password is none.
func (p *product) apiDoor(ctx context.Context, stored int, password string) door {
	d := door{name: "API", server: p.child, stored: stored}
	if password != "" {
		password = fmt.Sprintf(`"password":%q,`, password)
	}
	d.create = func(_, n int) error {
		body := fmt.Sprintf(`{"username":%q,%s"roles":[{"rolename":%q}],"groups":[{"groupname":%q}]}`,
			d.newClient(n), password, deviceRole, groupName(n))
		return p.call(ctx, http.MethodPost, p.clients, body, http.StatusNoContent, io.Discard)
	}
	d.remove = func(_, n int) error {
		return p.call(ctx, http.MethodDelete, p.clients+"?username="+d.newClient(n), "", http.StatusNoContent, io.Discard)
	}
	return d
}

// controlDoor goes over $CONTROL, with a connection for each caller.
func controlDoor(ctx context.Context, server *child, addr string, a access, callers, stored int, password string) (door, error) {
	d := door{name: "$CONTROL", server: server, stored: stored}
	var secret *broker.Secret
	if password != "" {
		secret = new(broker.Secret(password))
	}
	for i := range callers {
		w, err := dialControl(ctx, addr, fmt.Sprintf("caller-%d", i), a.password)
		if err != nil {
			return d, err
		}
		d.wires = append(d.wires, w)
	}
	d.create = func(caller, n int) error {
		return d.wires[caller].control(dynsec.CreateClient(broker.ClientSpec{Username: d.newClient(n), Password: secret,
			Roles:  holds(deviceRole),
			Groups: []broker.GroupRef{{GroupName: groupName(n), Priority: broker.NoPriority}}}))
	}
	d.remove = func(caller, n int) error { return d.wires[caller].control(dynsec.DeleteClient(d.newClient(n))) }
	return d, nil
}

// measure has clients created, and deletes them again.
func (d door) measure(callers, calls int) (cost, error) {
	c, err := d.server.measure(callers, calls, d.create)
	if err != nil {
		return c, err
	}
	_, err = hammer(callers, calls, d.remove)
	return c, err
}

// measureCreate compares what one creation costs in a large store and in a
// small one, for a caller that waits for each.
func (b *bench) measureCreate(ctx context.Context) error {
	small, err := b.theSmall(ctx)
	if err != nil {
		return err
	}
	large, err := b.theLarge(ctx)
	if err != nil {
		return err
	}
	if err := b.flat(b.creations, "product", small.apiDoor(ctx, b.few, ""), large.apiDoor(ctx, b.many, "")); err != nil {
		return err
	}
	few, err := controlDoor(ctx, small.child, small.mqtt, small.access, 1, b.few, "")
	if err != nil {
		return err
	}
	many, err := controlDoor(ctx, large.child, large.mqtt, large.access, 1, b.many, "")
	if err != nil {
		return err
	}
	if err := b.flat(b.creations, "product", few, many); err != nil {
		return err
	}
	return b.peerCreate(ctx)
}

// peerCreate does the same with Mosquitto.
func (b *bench) peerCreate(ctx context.Context) error {
	var doors []door
	for _, stored := range []int{b.few, b.many} {
		m, err := b.newMosquitto(ctx, stored, 0)
		if err != nil {
			return err
		}
		d, err := controlDoor(ctx, m.child, m.addr, m.access, 1, stored, "")
		if err != nil {
			return err
		}
		doors = append(doors, d)
	}
	return b.flat(b.peerChanges, "Mosquitto", doors[0], doors[1])
}

// flat measures both stores in turns, after a round that does not count. The
// peer's ratio is only told.
func (b *bench) flat(calls int, who string, few, many door) error {
	defer few.close()
	defer many.close()
	var got [2]series
	for round := range b.rounds + 1 {
		for i, d := range []door{few, many} {
			c, err := d.measure(1, calls)
			if err != nil {
				return err
			}
			if round > 0 {
				got[i].add(c)
			}
		}
	}
	bound := atMost(1.2)
	if who != "product" {
		bound = told
	}
	what := fmt.Sprintf("%s, createClient over %s, %d : %d clients stored: ", who, few.name, many.stored, few.stored)
	figures := fmt.Sprintf("%s; %s", got[1], got[0])
	b.report.add(what+"CPU", figures, got[1].cpu.over(got[0].cpu), "%.2f ×", bound)
	b.report.add(what+"p50", "", got[1].p50.over(got[0].p50), "%.2f ×", bound)
	return nil
}

// measureRate counts durable creations with many callers at a time, and sets
// apart what hashing a password adds to one.
func (b *bench) measureRate(ctx context.Context) error {
	p, err := b.theLarge(ctx)
	if err != nil {
		return err
	}
	for _, open := range []func(password string) (door, error){
		func(password string) (door, error) { return p.apiDoor(ctx, b.many, password), nil },
		func(password string) (door, error) {
			return controlDoor(ctx, p.child, p.mqtt, p.access, writers, b.many, password)
		},
	} {
		if err := b.rate(open); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) rate(open func(password string) (door, error)) error {
	var got [2]series
	var name string
	for range b.rounds {
		for i, load := range []struct {
			password string
			calls    int
		}{{"", b.bulk}, {"correct horse battery", b.hashed}} {
			d, err := open(load.password)
			if err != nil {
				return err
			}
			c, err := d.measure(writers, load.calls)
			d.close()
			if err != nil {
				return err
			}
			name = d.name
			got[i].add(c)
		}
	}
	what := fmt.Sprintf("durable creations a second over %s, %d callers, %d clients stored", name, writers, b.many)
	b.report.add(what, got[0].String(), got[0].perSecond, "%.0f /s", atLeast(1_500))
	b.report.add("the same with a password", got[1].String(), got[1].perSecond, "%.0f /s", told)
	b.report.add("CPU that hashing adds to one", "", got[1].cpu.minus(got[0].cpu), "%.0f µs", told)
	return nil
}
