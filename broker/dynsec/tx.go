package dynsec

import (
	"slices"

	"signalbox/broker"
)

// Tx makes the next version of a State. It belongs to one goroutine and must not be
// used after End. One that is not ended has no effect: drop it.
type Tx struct {
	s State // the version being made; its trees are this Tx's own

	// groups and roles that this Tx created or copied, and so may modify.
	ownGroups map[*group]struct{}
	ownRoles  map[*role]struct{}

	changes               []Change
	disconnects           []Disconnect
	disconnected          map[string]struct{} // the usernames in disconnects
	disconnectedAnonymous bool                // clients without one are in disconnects
	began                 int64               // the change index at the start
	shared                *sharing            // of the records that it puts; nil for none
}

// Connections returns the live connections of a username, for the records that contain
// them; nil stands for none.
type Connections func(username string) []broker.Connection

// Begin starts a transaction. Its cost does not depend on the size of the state.
func (s *State) Begin() *Tx {
	t := &Tx{
		s:         *s,
		ownGroups: map[*group]struct{}{},
		ownRoles:  map[*role]struct{}{},
		began:     s.index,
	}
	t.s.clients, t.s.groups, t.s.roles = fork(s.clients), fork(s.groups), fork(s.roles)
	return t
}

// Do runs one command on the result of the commands before it. A command that is
// refused changes nothing. Only the commands that return clients call live. Commands
// that do not mutate may be run on a transaction of any version, which is then dropped.
func (t *Tx) Do(c Command, live Connections) Response {
	a := Response{Command: c.Name(), CorrelationData: c.correlation}
	if c.op == nil {
		a.Error = string(errUnknownCommand)
		return a
	}
	if c.refused != nil {
		a.Error = c.refused.Error()
		return a
	}
	before := len(t.changes)
	data, err := c.op.do(t, &c, live)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	if len(t.changes) > before {
		t.s.index++
	}
	a.data = data
	return a
}

// End returns the next version, the changes that lead to it and the clients to
// disconnect. A client whose rights or credentials changed is among the disconnects,
// except for a change by PutDefaults, which disconnects no client. Without a change it
// returns a version equal to the one it started from and no changes.
func (t *Tx) End() (next *State, changes []Change, disconnects []Disconnect) {
	if t.s.index != t.began {
		t.record(PutChangeIndex{Index: t.s.index})
	}
	s := t.s
	t.s = State{}
	return &s, t.changes, t.disconnects
}

func (t *Tx) record(c Change) { t.changes = append(t.changes, c) }

// role returns a role to modify.
func (t *Tx) role(rolename string) *role {
	r, ok := t.s.roles.Get(rolename)
	if _, own := t.ownRoles[r]; own || !ok {
		return r
	}
	c := *r
	c.clients, c.groups = fork(r.clients), fork(r.groups)
	t.setRole(&c)
	return &c
}

func (t *Tx) setRole(r *role) {
	t.s.roles.Set(r.RoleName, r)
	t.ownRoles[r] = struct{}{}
}

// group returns a group to modify.
func (t *Tx) group(groupname string) *group {
	g, ok := t.s.groups.Get(groupname)
	if _, own := t.ownGroups[g]; own || !ok {
		return g
	}
	c := *g
	c.members = fork(g.members)
	t.setGroup(&c)
	return &c
}

func (t *Tx) setGroup(g *group) {
	t.s.groups.Set(g.GroupName, g)
	t.ownGroups[g] = struct{}{}
}

// putClient stores a client and replaces the one of its name, if any. All its roles and
// groups must exist.
func (t *Tx) putClient(c *ClientRecord, password *string) {
	previous, ok := t.s.clients.Set(c.Username, t.shared.nameless(c))
	old := previous
	if !ok {
		previous, old = nil, &ClientRecord{}
	}
	for _, ref := range old.Roles {
		if !hasRole(c.Roles, ref.RoleName) {
			t.role(ref.RoleName).clients.Delete(c.Username)
		}
	}
	for _, ref := range c.Roles {
		if !hasRole(old.Roles, ref.RoleName) {
			t.role(ref.RoleName).clients.Set(c.Username, struct{}{})
		}
	}
	t.regroup(c.Username, old.Groups, c.Groups)
	t.record(PutClient{ClientRecord: *c, Password: password, Previous: previous})
}

// regroup moves a client between groups.
func (t *Tx) regroup(username string, from, to []broker.GroupRef) {
	for _, ref := range from {
		if !hasGroup(to, ref.GroupName) {
			t.group(ref.GroupName).members.Delete(username)
		}
	}
	for _, ref := range to {
		if !hasGroup(from, ref.GroupName) {
			t.group(ref.GroupName).members.Set(username, struct{}{})
		}
	}
}

func (t *Tx) deleteClient(c *ClientRecord) {
	for _, ref := range c.Roles {
		t.role(ref.RoleName).clients.Delete(c.Username)
	}
	t.regroup(c.Username, c.Groups, nil)
	t.s.clients.Delete(c.Username)
	t.record(DropClient{Username: c.Username})
}

// putGroup stores a group's record and replaces the one of its name, if any; its
// members stay. All its roles must exist.
func (t *Tx) putGroup(r GroupRecord) {
	g := t.group(r.GroupName)
	if g == nil {
		g = newGroup(GroupRecord{GroupName: r.GroupName})
		t.setGroup(g)
	}
	for _, ref := range g.Roles {
		if !hasRole(r.Roles, ref.RoleName) {
			t.role(ref.RoleName).groups.Delete(r.GroupName)
		}
	}
	for _, ref := range r.Roles {
		if !hasRole(g.Roles, ref.RoleName) {
			t.role(ref.RoleName).groups.Set(r.GroupName, struct{}{})
		}
	}
	g.GroupRecord = r
	t.record(PutGroup{GroupRecord: r})
}

func (t *Tx) deleteGroup(g *group) {
	shared := newSharing()
	for username := range each(g.members, "") {
		c, _ := t.s.clients.Get(username)
		next := *c
		next.Groups = withoutGroup(c.Groups, g.GroupName)
		t.s.clients.Set(username, shared.nameless(&next))
	}
	for _, ref := range g.Roles {
		t.role(ref.RoleName).groups.Delete(g.GroupName)
	}
	t.s.groups.Delete(g.GroupName)
	t.record(DropGroup{GroupName: g.GroupName})
}

// putRole stores a role's record and replaces the one of its name, if any; its holders
// stay.
func (t *Tx) putRole(r RoleRecord) {
	if old := t.role(r.RoleName); old != nil {
		old.RoleRecord, old.rules = r, compiled(r)
	} else {
		t.setRole(newRole(r))
	}
	t.record(PutRole{RoleRecord: r})
}

func (t *Tx) deleteRole(r *role) {
	shared := newSharing()
	for username := range each(r.clients, "") {
		c, _ := t.s.clients.Get(username)
		next := *c
		next.Roles = withoutRole(c.Roles, r.RoleName)
		t.s.clients.Set(username, shared.nameless(&next))
	}
	for groupname := range each(r.groups, "") {
		g := t.group(groupname)
		g.Roles = withoutRole(g.Roles, r.RoleName)
	}
	t.s.roles.Delete(r.RoleName)
	t.record(DropRole{RoleName: r.RoleName})
}

// disconnectClient adds a client to the disconnects, once.
func (t *Tx) disconnectClient(username string) {
	if _, ok := t.disconnected[username]; ok {
		return
	}
	if t.disconnected == nil {
		t.disconnected = map[string]struct{}{}
	}
	t.disconnected[username] = struct{}{}
	t.disconnects = append(t.disconnects, Disconnect{Username: username})
}

// disconnectClients is disconnectClient for all of a set.
func (t *Tx) disconnectClients(usernames *names) {
	if t.disconnected == nil {
		t.disconnected = make(map[string]struct{}, usernames.Len())
	}
	t.disconnects = slices.Grow(t.disconnects, usernames.Len())
	for username := range each(usernames, "") {
		t.disconnectClient(username)
	}
}

// disconnectAnonymous adds the clients without a username to the disconnects.
func (t *Tx) disconnectAnonymous() {
	if !t.disconnectedAnonymous {
		t.disconnectedAnonymous = true
		t.disconnects = append(t.disconnects, Disconnect{Anonymous: true})
	}
}

// disconnectMembers adds a group's members to the disconnects; those of the anonymous group
// are also all clients without a username.
func (t *Tx) disconnectMembers(g *group) {
	t.disconnectClients(g.members)
	if g.GroupName == t.s.anonymous {
		t.disconnectAnonymous()
	}
}

// disconnectHolders adds all clients with a role, directly or through a group, to the
// disconnects.
func (t *Tx) disconnectHolders(r *role) {
	t.disconnectClients(r.clients)
	for groupname := range each(r.groups, "") {
		if g, ok := t.s.groups.Get(groupname); ok {
			t.disconnectMembers(g)
		}
	}
}
