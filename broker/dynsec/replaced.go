package dynsec

import (
	"slices"

	"signalbox/broker"
)

// Replaced returns the clients to disconnect if next replaces the state: all whose
// rights or credentials differ, as with [Tx.End], each once and in order of their
// names. A change of the default access disconnects no client. The state does not
// contain hashes of passwords; newPassword reports whether a client has another one.
func (s *State) Replaced(next *State, newPassword func(username string) bool) []Disconnect {
	d := difference{old: s, next: next, roles: map[string]bool{}, groups: map[string]bool{}}
	var disconnects []Disconnect
	for username, c := range each(s.clients, "") {
		if d.client(username, c) || newPassword(username) {
			disconnects = append(disconnects, Disconnect{Username: username})
		}
	}
	if s.anonymous != next.anonymous || s.anonymous != "" && d.group(s.anonymous) {
		disconnects = append(disconnects, Disconnect{Anonymous: true})
	}
	return disconnects
}

// difference compares two states. It caches the results for roles and groups, since
// many clients may have them.
type difference struct {
	old, next     *State
	roles, groups map[string]bool
}

// client reports whether a client was deleted, or its rights or credentials changed.
func (d *difference) client(username string, old *ClientRecord) bool {
	c, ok := d.next.clients.Get(username)
	return !ok || c.ClientID != old.ClientID || c.HasPassword != old.HasPassword || c.Disabled && !old.Disabled ||
		!slices.Equal(c.Roles, old.Roles) || !slices.Equal(c.Groups, old.Groups) || d.anyRole(old.Roles) ||
		slices.ContainsFunc(old.Groups, func(ref broker.GroupRef) bool { return d.group(ref.GroupName) })
}

func (d *difference) anyRole(refs []broker.RoleRef) bool {
	return slices.ContainsFunc(refs, func(ref broker.RoleRef) bool { return d.role(ref.RoleName) })
}

func (d *difference) role(rolename string) bool {
	return known(d.roles, rolename, func() bool {
		old, _ := d.old.roles.Get(rolename)
		r, ok := d.next.roles.Get(rolename)
		return !ok || r.AllowWildcardSubs != old.AllowWildcardSubs || !slices.Equal(r.ACLs, old.ACLs)
	})
}

func (d *difference) group(groupname string) bool {
	return known(d.groups, groupname, func() bool {
		old, _ := d.old.groups.Get(groupname)
		g, ok := d.next.groups.Get(groupname)
		return !ok || !slices.Equal(g.Roles, old.Roles) || d.anyRole(old.Roles)
	})
}

// known returns a cached result, or calls find once.
func known(answers map[string]bool, name string, find func() bool) bool {
	answer, ok := answers[name]
	if !ok {
		answer = find()
		answers[name] = answer
	}
	return answer
}
