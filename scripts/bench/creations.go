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

// writers is the number of concurrent callers where throughput is measured.
const writers = 16

// clientAPI is an API for creating and deleting clients.
type clientAPI struct {
	name   string
	server *child
	stored int                        // clients that exist already
	create func(password string) call // an empty password creates a client without one
	remove call
	wires  []*wire // the callers' connections to $CONTROL
}

// close closes the callers' connections.
func (d clientAPI) close() {
	for _, w := range d.wires {
		w.conn.Close()
	}
}

// newName returns the name of the n-th client to create, between the names of those
// stored.
func newName(n, stored int) string {
	return fmt.Sprintf("%s-new-%d", clientName(n*7919%stored), n)
}

// httpAPI uses the HTTP API.
func (p *product) httpAPI(ctx context.Context, stored int) clientAPI {
	return clientAPI{name: "API", server: p.child, stored: stored,
		create: func(password string) call {
			if password != "" {
				password = fmt.Sprintf(`"password":%q,`, password)
			}
			return func(_, n int) error {
				body := fmt.Sprintf(`{"username":%q,%s"roles":[{"rolename":%q}],"groups":[{"groupname":%q}]}`,
					newName(n, stored), password, deviceRole, groupName(n))
				return p.call(ctx, http.MethodPost, p.clients, body, http.StatusNoContent, io.Discard)
			}
		},
		remove: func(_, n int) error {
			return p.call(ctx, http.MethodDelete, p.clients+"?username="+newName(n, stored), "", http.StatusNoContent, io.Discard)
		}}
}

// controlAPI uses $CONTROL, with a connection for each caller.
func controlAPI(ctx context.Context, server *child, addr string, a access, callers, stored int) (clientAPI, error) {
	d := clientAPI{name: "$CONTROL", server: server, stored: stored}
	for i := range callers {
		w, err := dialControl(ctx, addr, fmt.Sprintf("caller-%d", i), a.password)
		if err != nil {
			return d, err
		}
		d.wires = append(d.wires, w)
	}
	d.create = func(password string) call {
		var secret *broker.Secret
		if password != "" {
			secret = new(broker.Secret(password))
		}
		return func(caller, n int) error {
			return d.wires[caller].control(dynsec.CreateClient(broker.ClientSpec{Username: newName(n, stored), Password: secret,
				Roles:  holds(deviceRole),
				Groups: []broker.GroupRef{{GroupName: groupName(n), Priority: broker.NoPriority}}}))
		}
	}
	d.remove = func(caller, n int) error { return d.wires[caller].control(dynsec.DeleteClient(newName(n, stored))) }
	return d, nil
}

// load creates clients and deletes them again.
func (d clientAPI) load(callers, calls int, password string) subject {
	return subject{server: d.server, callers: callers, calls: calls, do: d.create(password), undo: d.remove}
}

// measureCreate compares the cost of a creation in a large store with that in a small
// one, for a single caller.
func (b *bench) measureCreate(ctx context.Context) error {
	small, err := b.smallProduct(ctx)
	if err != nil {
		return err
	}
	large, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	if err := b.flat(b.creations, "product", small.httpAPI(ctx, b.few), large.httpAPI(ctx, b.many)); err != nil {
		return err
	}
	few, err := controlAPI(ctx, small.child, small.mqtt, small.access, 1, b.few)
	if err != nil {
		return err
	}
	many, err := controlAPI(ctx, large.child, large.mqtt, large.access, 1, b.many)
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
	var apis []clientAPI
	for _, stored := range []int{b.few, b.many} {
		m, err := b.newMosquitto(ctx, stored, 0)
		if err != nil {
			return err
		}
		d, err := controlAPI(ctx, m.child, m.addr, m.access, 1, stored)
		if err != nil {
			return err
		}
		apis = append(apis, d)
	}
	return b.flat(b.peerChanges, "Mosquitto", apis[0], apis[1])
}

// flat compares both stores. The peer's ratio has no bound.
func (b *bench) flat(calls int, who string, few, many clientAPI) error {
	defer few.close()
	defer many.close()
	got, err := compare(b.rounds, few.load(1, calls, ""), many.load(1, calls, ""))
	if err != nil {
		return err
	}
	bound := atMost(1.2)
	if who != "product" {
		bound = unbounded
	}
	what := fmt.Sprintf("%s, createClient over %s, %d : %d clients stored: ", who, few.name, many.stored, few.stored)
	figures := fmt.Sprintf("%s; %s", got[1], got[0])
	b.report.add(what+"CPU", figures, got[1].cpu.over(got[0].cpu), "%.2f ×", bound)
	b.report.add(what+"p50", "", got[1].p50.over(got[0].p50), "%.2f ×", bound)
	return nil
}

// measureRate measures durable creations a second with many concurrent callers, and the
// cost of hashing a password separately.
func (b *bench) measureRate(ctx context.Context) error {
	p, err := b.largeProduct(ctx)
	if err != nil {
		return err
	}
	if err := b.rate(p.httpAPI(ctx, b.many)); err != nil {
		return err
	}
	d, err := controlAPI(ctx, p.child, p.mqtt, p.access, writers, b.many)
	if err != nil {
		return err
	}
	return b.rate(d)
}

func (b *bench) rate(d clientAPI) error {
	defer d.close()
	got, err := compare(b.rounds, d.load(writers, b.bulk, ""), d.load(writers, b.hashed, "correct horse battery"))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("durable creations a second over %s, %d callers, %d clients stored", d.name, writers, b.many)
	b.report.add(what, got[0].String(), got[0].perSecond, "%.0f /s", atLeast(1_500))
	b.report.add("the same with a password", got[1].String(), got[1].perSecond, "%.0f /s", unbounded)
	b.report.add("CPU that hashing adds to one", "", got[1].cpu.minus(got[0].cpu), "%.0f µs", unbounded)
	return nil
}
