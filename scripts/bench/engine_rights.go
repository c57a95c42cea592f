//go:build linux

package main

import (
	"crypto/rand"
	"fmt"
	"os"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/scripts/bench/load"
)

// loader is the client that the loads log in as, and the name of its role.
const loader = "bench"

// writeLoadAccess writes a file with the clients of all loads: the loader, which may
// use the loads' topics, and the publishers of the load of rights, each with many
// roles.
func writeLoadAccess(file string) (access, error) {
	a := access{file: file, password: rand.Text()}
	hash, err := encodePassword(a.password, cheap)
	if err != nil {
		return a, err
	}
	d := dynsec.Document{Defaults: new(dynsec.DefaultDefaults()), Roles: []broker.Role{adminRole(), loaderRole()}}
	for _, name := range []string{adminName, loader} {
		d.Clients = append(d.Clients, dynsec.DocumentClient{Username: name, EncodedPassword: hash, Roles: holds(name)})
	}
	for n := range load.RightsPublishers {
		addPublisher(&d, n, hash)
	}
	b, err := d.Marshal()
	if err != nil {
		return a, err
	}
	return a, os.WriteFile(file, b, 0o600)
}

// streamControl covers the commands for streams and their responses.
const streamControl = "$CONTROL/stream-processing/#"

func loaderRole() broker.Role {
	r := broker.Role{RoleName: loader, AllowWildcardSubs: true}
	for _, t := range []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribePattern} {
		for _, topic := range []string{"bench/#", streamControl} {
			r.ACLs = append(r.ACLs, broker.ACL{ACLType: t, Topic: topic, Allow: true})
		}
	}
	return r
}

// addPublisher adds a publisher with roles of its own. Each of their ACLs allows one of
// its topics; the topics are distributed over the roles round-robin.
func addPublisher(d *dynsec.Document, n int, hash string) {
	c := dynsec.DocumentClient{Username: load.RightsUser(n), EncodedPassword: hash}
	for r := range load.RolesEach {
		role := broker.Role{RoleName: fmt.Sprintf("publisher-%02d-%d", n, r)}
		for a := range load.ACLsEach {
			topic := load.PathOf(n, a*load.RolesEach+r)
			role.ACLs = append(role.ACLs, broker.ACL{ACLType: broker.PublishClientSend, Topic: topic, Allow: true})
		}
		d.Roles = append(d.Roles, role)
		c.Roles = append(c.Roles, broker.RoleRef{RoleName: role.RoleName, Priority: broker.NoPriority})
	}
	d.Clients = append(d.Clients, c)
}
