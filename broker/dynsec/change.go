package dynsec

import (
	"iter"

	"signalbox/broker"
)

// ClientRecord is the stored record of a client. Roles and Groups are in order of
// evaluation. A record in a State is shared by all its readers: neither it nor its
// lists may be modified. The hash of the password is not part of it.
type ClientRecord struct {
	Username        string
	ClientID        string // the only MQTT client id it may use; "" for any
	TextName        *string
	TextDescription *string
	Disabled        bool
	HasPassword     bool
	Roles           []broker.RoleRef
	Groups          []broker.GroupRef
}

// GroupRecord is the stored record of a group. Its members are in the records of the
// clients. Roles are in order of evaluation.
type GroupRecord struct {
	GroupName       string
	TextName        *string
	TextDescription *string
	Roles           []broker.RoleRef
}

// RoleRecord is the stored record of a role: ACLs are ordered by type, then by priority
// from high to low, then by the order in which they were added.
type RoleRecord = broker.Role

// Change is one step from a State to the next, for a store to repeat in order: each
// puts or deletes one record. A record refers only to roles and groups that were put
// before it.
type Change interface{ change() }

// PutClient stores a client, its role and group lists included. Password is the hash to
// store: nil keeps the stored one, "" removes it.
type PutClient struct {
	ClientRecord
	Password *string

	// Previous is the record that this one replaces, so that a store can write only the
	// difference; nil if there was none, or it is not known. It is without its name.
	Previous *ClientRecord
}

// PutClients stores clients that do not exist, as a PutClient for each would: they are made one after
// the other, since a list of many takes much memory. Each may be read repeatedly.
type PutClients struct{ Each iter.Seq[PutClient] }

// Single yields changes, with the PutClient of each client instead of PutClients.
func Single(changes []Change) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for _, c := range changes {
			many, ok := c.(PutClients)
			if !ok && !yield(c) {
				return
			}
			for put := range some(many.Each) {
				if !yield(put) {
					return
				}
			}
		}
	}
}

// DropClient removes a client and its memberships.
type DropClient struct{ Username string }

// PutGroup stores a group and its role list; its members stay.
type PutGroup struct{ GroupRecord }

// DropGroup removes a group from the store and from the records of its
// members. No PutClient follows for them.
type DropGroup struct{ GroupName string }

// PutRole stores a role and its ACLs; its holders stay.
type PutRole struct{ RoleRecord }

// DropRole removes a role from the store and from the records of the clients
// and groups that hold it. No PutClient or PutGroup follows for them.
type DropRole struct{ RoleName string }

// PutDefaults stores the access for events that no ACL matches.
type PutDefaults struct{ Defaults }

// PutAnonymousGroup stores the name of the group whose roles apply to clients without a
// username; "" for none.
type PutAnonymousGroup struct{ GroupName string }

// PutChangeIndex stores the number of changes made so far.
type PutChangeIndex struct{ Index int64 }

// Clear removes all clients, groups and roles; an import that replaces starts with it.
type Clear struct{}

func (PutClient) change()         {}
func (PutClients) change()        {}
func (DropClient) change()        {}
func (PutGroup) change()          {}
func (DropGroup) change()         {}
func (PutRole) change()           {}
func (DropRole) change()          {}
func (PutDefaults) change()       {}
func (PutAnonymousGroup) change() {}
func (PutChangeIndex) change()    {}
func (Clear) change()             {}

// Disconnect names connected clients that must be disconnected because their rights or
// credentials changed: those with the username or, if Anonymous, those without one.
// They receive DISCONNECT 0x98 if their protocol version has it, after the response was
// sent, and their Will is not published.
type Disconnect struct {
	Username  string
	Anonymous bool
}
