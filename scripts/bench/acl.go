//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// The rights to check: every client has ten roles of a hundred ACLs each.
const (
	rolesEach = 10
	aclsEach  = 100
	roleCount = 100
	connected = 1_000 // clients whose rights are compiled
)

// measureACL asks the compiled rights of connected clients for literal topics
// that some of their roles allow, with few and with many clients stored.
func (b *bench) measureACL(context.Context) error {
	var got [2]samples
	var allocations samples
	var fleets []*fleet
	for _, stored := range []int{b.few, b.many} {
		f, err := newFleet(stored)
		if err != nil {
			return err
		}
		fleets = append(fleets, f)
	}
	for round := range b.rounds + 1 {
		for i, f := range fleets {
			nanos, allocs, err := f.check(b.checks)
			if err != nil {
				return err
			}
			if round > 0 {
				got[i], allocations = append(got[i], nanos), append(allocations, allocs)
			}
		}
	}
	runtime.KeepAlive(fleets)
	what := fmt.Sprintf("ACL check, %d roles of %d ACLs each, literal topic, ", rolesEach, aclsEach)
	b.report.add(fmt.Sprintf("%s%d clients", what, b.few), "", got[0], "%.0f ns", atMost(1_000))
	b.report.add(fmt.Sprintf("%s%d clients", what, b.many), "", got[1], "%.0f ns", atMost(1_000))
	b.report.add(fmt.Sprintf("ACL check, %d : %d clients", b.many, b.few), "", got[1].over(got[0]), "%.2f ×", atMost(1.2))
	b.report.add("ACL check: allocations", "", allocations, "%.3f", atMost(0.001))
	return nil
}

// fleet is a state and the rights of its connected clients.
type fleet struct {
	state  *dynsec.State // kept reachable while its rights are checked
	step   int           // distance between two connected clients
	rights []*dynsec.Rights
	topics [roleCount][aclsEach]string
}

func roleName(n int) string { return fmt.Sprintf("role-%02d", n%roleCount) }

func newFleet(clients int) (*fleet, error) {
	f := &fleet{step: max(1, clients/connected)}
	roles := make([]dynsec.RoleRecord, roleCount)
	for r := range roles {
		roles[r] = broker.Role{RoleName: roleName(r), AllowWildcardSubs: true}
		for a := range aclsEach {
			f.topics[r][a] = fmt.Sprintf("plant/%d/machine/%d/state", r, a)
			roles[r].ACLs = append(roles[r].ACLs, broker.ACL{ACLType: broker.PublishClientSend, Topic: f.topics[r][a], Allow: true})
		}
	}
	var err error
	f.state, err = dynsec.Load(dynsec.LoadRecords{
		Roles: slices.Values(roles),
		Clients: func(yield func(dynsec.ClientRecord) bool) {
			for n := range clients {
				if !yield(dynsec.ClientRecord{Username: clientName(n), Roles: rolesOf(n)}) {
					return
				}
			}
		},
		Defaults: dynsec.DefaultDefaults(),
	})
	if err != nil {
		return nil, err
	}
	for n := 0; n < clients; n += f.step {
		r, _ := f.state.Rights(clientName(n))
		f.rights = append(f.rights, r)
	}
	return f, nil
}

// rolesOf returns the ten roles of the n-th client.
func rolesOf(n int) (refs []broker.RoleRef) {
	for i := range rolesEach {
		refs = append(refs, broker.RoleRef{RoleName: roleName(n + i), Priority: broker.NoPriority})
	}
	return refs
}

// check makes that many checks, each for another client and for another topic of
// another of its roles, and returns the cost of one.
func (f *fleet) check(questions int) (nanos, allocations float64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for q := range questions {
		n := q * 7919 % len(f.rights)
		topic := f.topics[(n*f.step+q%rolesEach)%roleCount][q%aclsEach]
		if !f.rights[n].Allowed(dynsec.PublishSend, "device", topic) {
			return 0, 0, fmt.Errorf("client %d is denied %s", n, topic)
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return float64(took) / float64(questions), float64(after.Mallocs-before.Mallocs) / float64(questions), nil
}
