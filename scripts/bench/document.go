//go:build linux

package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

const (
	adminName  = "admin"
	deviceRole = "device"
	groupCount = 100
	cheap      = 101    // iterations of PBKDF2: Mosquitto's default
	costly     = 10_000 // the product's
)

func clientName(n int) string { return fmt.Sprintf("client-%06d", n) }
func groupName(n int) string  { return fmt.Sprintf("group-%02d", n%groupCount) }

// access is an access-control configuration that both brokers can read, and the
// password of its admin. All devices have the same password.
type access struct {
	file     string
	password string
}

// writeAccess writes a file with an admin and that many clients, each with a role, a
// group and, if iterations is positive, a password.
func writeAccess(file string, clients, iterations int) (access, error) {
	a := access{file: file, password: rand.Text()}
	admin, err := encodePassword(a.password, cheap)
	if err != nil {
		return a, err
	}
	device := ""
	if iterations > 0 {
		if device, err = encodePassword(a.password, iterations); err != nil {
			return a, err
		}
	}
	b, err := configuration(clients, admin, device).Marshal()
	if err != nil {
		return a, err
	}
	return a, os.WriteFile(file, b, 0o600)
}

// configuration lists the last name first: Mosquitto inserts into a sorted list from
// its beginning, and would otherwise take minutes to load it.
func configuration(clients int, admin, device string) dynsec.Document {
	d := dynsec.Document{Defaults: new(dynsec.DefaultDefaults()), Roles: []broker.Role{adminRole(), {
		RoleName: deviceRole, AllowWildcardSubs: true,
		ACLs: []broker.ACL{{ACLType: broker.PublishClientSend, Topic: "plant/#", Allow: true}},
	}}}
	for n := range groupCount {
		d.Groups = append(d.Groups, broker.Group{GroupName: groupName(n), Roles: []broker.RoleRef{}})
	}
	for n := clients - 1; n >= 0; n-- {
		d.Clients = append(d.Clients, dynsec.DocumentClient{Username: clientName(n), EncodedPassword: device, Roles: holds(deviceRole)})
		g := &d.Groups[n%groupCount]
		g.Clients = append(g.Clients, broker.MemberRef{Username: clientName(n), Priority: broker.NoPriority})
	}
	d.Clients = append(d.Clients, dynsec.DocumentClient{Username: adminName, EncodedPassword: admin, Roles: holds(adminName)})
	return d
}

func holds(role string) []broker.RoleRef {
	return []broker.RoleRef{{RoleName: role, Priority: broker.NoPriority}}
}

// adminRole may do everything, $CONTROL included.
func adminRole() broker.Role {
	r := broker.Role{RoleName: adminName, AllowWildcardSubs: true}
	for _, t := range []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribePattern} {
		for _, topic := range []string{"$CONTROL/#", "#"} {
			r.ACLs = append(r.ACLs, broker.ACL{ACLType: t, Topic: topic, Allow: true})
		}
	}
	return r
}

// encodePassword hashes with the only salt length that Mosquitto 2.0 accepts.
func encodePassword(password string, iterations int) (string, error) {
	salt := make([]byte, 12)
	rand.Read(salt) //nolint:errcheck // never fails
	hash, err := pbkdf2.Key(sha512.New, password, salt, iterations, sha512.Size)
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("$7$%d$%s$%s", iterations, encode(salt), encode(hash)), err
}
