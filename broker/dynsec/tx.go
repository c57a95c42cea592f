package dynsec

import (
	"slices"

	"signalbox/broker"
)

// Tx makes the next version of a State. It belongs to one goroutine and is over
// after End. One that is not ended leaves no trace: drop it.
type Tx struct {
	s State // the version under work; its trees are this Tx's own

	// groups and roles that this Tx made or copied, and so may write to.
	ownGroups map[*group]struct{}
	ownRoles  map[*role]struct{}

	changes []Change
	cuts    []Cut
	cut     map[string]struct{} // the usernames in cuts
	cutAnon bool                // clients without one are in cuts
	began   int64               // the change index at the beginning
}

// Connections gives the live connections of a username, for the records that
// show them; nil stands for none anywhere.
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

// Do runs one command on what the commands before it left behind. A command
// that is refused changes nothing. The live connections are only asked for by
// the commands that show clients. Commands that do not mutate may be done on a
// transaction of any version, which is then dropped.
func (t *Tx) Do(c Command, live Connections) Answer {
	a := Answer{Command: c.Name(), CorrelationData: c.correlation}
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

// End gives the next version, the steps that lead to it and whom they throw
// out. Whoever's rights or credentials changed is among the cuts, unless it was
// by PutDefaults, which throws nobody out. Without a change it gives a version
// equal to the one it began with and no steps.
func (t *Tx) End() (next *State, changes []Change, cuts []Cut) {
	if t.s.index != t.began {
		t.record(PutChangeIndex{Index: t.s.index})
	}
	s := t.s
	t.s = State{}
	return &s, t.changes, t.cuts
}

func (t *Tx) record(c Change) { t.changes = append(t.changes, c) }

// role gives a role to write to.
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

// group gives a group to write to.
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

// putClient stores a client in place of the one of its name, if any. All its
// roles and groups must be there.
func (t *Tx) putClient(c *ClientRecord, password *string) {
	previous, ok := t.s.clients.Set(c.Username, c)
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

// putGroup stores a group's record in place of the one of its name, if any; its
// members stay. All its roles must be there.
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
	for username := range each(g.members, "") {
		c, _ := t.s.clients.Get(username)
		next := *c
		next.Groups = withoutGroup(c.Groups, g.GroupName)
		t.s.clients.Set(username, &next)
	}
	for _, ref := range g.Roles {
		t.role(ref.RoleName).groups.Delete(g.GroupName)
	}
	t.s.groups.Delete(g.GroupName)
	t.record(DropGroup{GroupName: g.GroupName})
}

// putRole stores a role's record in place of the one of its name, if any; its
// holders stay.
func (t *Tx) putRole(r RoleRecord) {
	if old := t.role(r.RoleName); old != nil {
		old.RoleRecord, old.rules = r, compiled(r)
	} else {
		t.setRole(newRole(r))
	}
	t.record(PutRole{RoleRecord: r})
}

func (t *Tx) deleteRole(r *role) {
	for username := range each(r.clients, "") {
		c, _ := t.s.clients.Get(username)
		next := *c
		next.Roles = withoutRole(c.Roles, r.RoleName)
		t.s.clients.Set(username, &next)
	}
	for groupname := range each(r.groups, "") {
		g := t.group(groupname)
		g.Roles = withoutRole(g.Roles, r.RoleName)
	}
	t.s.roles.Delete(r.RoleName)
	t.record(DropRole{RoleName: r.RoleName})
}

// cutClient notes a client to throw out, once.
func (t *Tx) cutClient(username string) {
	if _, ok := t.cut[username]; ok {
		return
	}
	if t.cut == nil {
		t.cut = map[string]struct{}{}
	}
	t.cut[username] = struct{}{}
	t.cuts = append(t.cuts, Cut{Username: username})
}

// cutClients is cutClient for all of a set.
func (t *Tx) cutClients(usernames *names) {
	if t.cut == nil {
		t.cut = make(map[string]struct{}, usernames.Len())
	}
	t.cuts = slices.Grow(t.cuts, usernames.Len())
	for username := range each(usernames, "") {
		t.cutClient(username)
	}
}

// cutAnonymous notes that the clients without a username are to be thrown out.
func (t *Tx) cutAnonymous() {
	if !t.cutAnon {
		t.cutAnon = true
		t.cuts = append(t.cuts, Cut{Anonymous: true})
	}
}

// cutMembers throws out a group's members; those of the anonymous group are
// also all clients without a username.
func (t *Tx) cutMembers(g *group) {
	t.cutClients(g.members)
	if g.GroupName == t.s.anonymous {
		t.cutAnonymous()
	}
}

// cutHolders throws out everyone who has a role, directly or through a group.
func (t *Tx) cutHolders(r *role) {
	t.cutClients(r.clients)
	for groupname := range each(r.groups, "") {
		if g, ok := t.s.groups.Get(groupname); ok {
			t.cutMembers(g)
		}
	}
}
