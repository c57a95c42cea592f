package dynsec

import (
	"slices"

	"signalbox/broker"
)

func (t *Tx) createGroup(c *Command, _ Connections) (payload, error) {
	a := &c.args
	groupname, err := newName(a.groupname, errGroupname, errGroupnameEmpty, errGroupnameUTF8)
	switch {
	case err != nil:
		return nil, err
	case a.textName.wrong():
		return nil, errTextName
	case a.textDescription.wrong():
		return nil, errTextDescription
	}
	if _, ok := t.s.groups.Get(groupname); ok {
		return nil, errGroupExists
	}
	roles, err := t.resolveRoles(a.roles, errInternal)
	if err != nil {
		return nil, err
	}
	t.putGroup(GroupRecord{
		GroupName:       groupname,
		TextName:        a.textName.ptr(),
		TextDescription: a.textDescription.ptr(),
		Roles:           roles,
	})
	return nil, nil
}

func (t *Tx) deleteGroupCommand(c *Command, _ Connections) (payload, error) {
	g, err := t.groupOf(c)
	switch {
	case err != nil:
		return nil, err
	case g.GroupName == t.s.anonymous:
		return nil, errGroupAnonymous
	}
	t.disconnectMembers(g)
	t.deleteGroup(g)
	return nil, nil
}

func (t *Tx) getGroup(c *Command, _ Connections) (payload, error) {
	g, err := t.groupOf(c)
	if err != nil {
		return nil, err
	}
	return singleRecord[broker.Group]{of: groupNoun, record: viewGroup(g.GroupName, g)}, nil
}

func (t *Tx) listGroups(c *Command, _ Connections) (payload, error) {
	return listed(groupNoun, t.s.groups, c, viewGroup), nil
}

// modifyGroup changes the given members. As in Mosquitto, members of a wrong type are
// ignored, but a list of roles must be valid.
func (t *Tx) modifyGroup(c *Command, _ Connections) (payload, error) {
	g, err := t.groupOf(c)
	if err != nil {
		return nil, err
	}
	next, a := g.GroupRecord, &c.args
	replace(&next.TextName, a.textName)
	replace(&next.TextDescription, a.textDescription)
	if a.roles.given {
		if next.Roles, err = t.resolveRoles(a.roles, errRoles); err != nil {
			return nil, err
		}
	}
	members, err := t.resolveClients(a.clients.value)
	if err != nil {
		return nil, err
	}
	t.putGroup(next)
	if a.roles.given || a.clients.good {
		t.disconnectMembers(t.group(g.GroupName))
	}
	if a.clients.good {
		t.setMembers(t.group(g.GroupName), members)
		t.disconnectMembers(t.group(g.GroupName))
	}
	return nil, nil
}

// resolveClients returns the clients of a list; of duplicates the first counts.
func (t *Tx) resolveClients(refs []ref) (map[string]broker.Priority, error) {
	members := make(map[string]broker.Priority, len(refs))
	for _, r := range refs {
		if !r.name.good {
			return nil, errClientsInvalid
		}
		if _, ok := t.s.clients.Get(r.name.value); !ok {
			return nil, errClientsUnknown
		}
		if _, twice := members[r.name.value]; !twice {
			members[r.name.value] = r.priority
		}
	}
	return members, nil
}

// setMembers makes exactly these the members of a group. It touches only the records of
// clients whose membership changes.
func (t *Tx) setMembers(g *group, members map[string]broker.Priority) {
	for _, username := range g.members.Keys() {
		if _, stays := members[username]; !stays {
			t.leave(username, g.GroupName)
		}
	}
	for username, p := range members {
		c, _ := t.s.client(username)
		if !slices.Contains(c.Groups, broker.GroupRef{GroupName: g.GroupName, Priority: p}) {
			t.enter(c, g.GroupName, p)
		}
	}
}

// enter adds a client to a group with a priority; leave removes it.
func (t *Tx) enter(c *ClientRecord, groupname string, p broker.Priority) {
	next := *c
	next.Groups = orderGroups(append(withoutGroup(c.Groups, groupname), broker.GroupRef{GroupName: groupname, Priority: p}))
	t.putClient(&next, nil)
}

func (t *Tx) leave(username, groupname string) {
	c, _ := t.s.client(username)
	next := *c
	next.Groups = withoutGroup(c.Groups, groupname)
	t.putClient(&next, nil)
}

func (t *Tx) addGroupClient(c *Command, _ Connections) (payload, error) {
	r, g, err := t.clientAndGroup(c)
	switch {
	case err != nil:
		return nil, err
	case hasGroup(r.Groups, g.GroupName):
		return nil, errMember
	}
	t.enter(r, g.GroupName, c.priority())
	t.disconnectClient(r.Username)
	return nil, nil
}

func (t *Tx) removeGroupClient(c *Command, _ Connections) (payload, error) {
	r, g, err := t.clientAndGroup(c)
	if err != nil {
		return nil, err
	}
	if hasGroup(r.Groups, g.GroupName) {
		t.leave(r.Username, g.GroupName)
		t.disconnectClient(r.Username)
	}
	return nil, nil
}

// clientAndGroup returns the records that addGroupClient and removeGroupClient name.
func (t *Tx) clientAndGroup(c *Command) (*ClientRecord, *group, error) {
	username, err := name(c.args.username, errUsername, errUsernameUTF8)
	if err != nil {
		return nil, nil, err
	}
	groupname, err := name(c.args.groupname, errGroupname, errGroupnameUTF8)
	if err != nil {
		return nil, nil, err
	}
	r, ok := t.s.client(username)
	if !ok {
		return nil, nil, errClientNotFound
	}
	g, ok := t.s.groups.Get(groupname)
	if !ok {
		return nil, nil, errGroupNotFound
	}
	return r, g, nil
}

func (t *Tx) addGroupRole(c *Command, _ Connections) (payload, error) {
	g, held, err := t.groupAndRole(c)
	switch {
	case err != nil:
		return nil, err
	case hasRole(g.Roles, held.RoleName):
		return nil, errGroupHasRole
	}
	next := g.GroupRecord
	next.Roles = orderRoles(append(slices.Clone(g.Roles), broker.RoleRef{RoleName: held.RoleName, Priority: c.priority()}))
	t.putGroup(next)
	t.disconnectMembers(g)
	return nil, nil
}

func (t *Tx) removeGroupRole(c *Command, _ Connections) (payload, error) {
	g, held, err := t.groupAndRole(c)
	if err != nil {
		return nil, err
	}
	if hasRole(g.Roles, held.RoleName) {
		next := g.GroupRecord
		next.Roles = withoutRole(g.Roles, held.RoleName)
		t.putGroup(next)
		t.disconnectMembers(g)
	}
	return nil, nil
}

// groupAndRole returns the records that addGroupRole and removeGroupRole name.
func (t *Tx) groupAndRole(c *Command) (*group, *role, error) {
	groupname, err := name(c.args.groupname, errGroupname, errGroupnameUTF8)
	if err != nil {
		return nil, nil, err
	}
	rolename, err := name(c.args.rolename, errRolename, errRolenameUTF8)
	if err != nil {
		return nil, nil, err
	}
	g, ok := t.s.groups.Get(groupname)
	if !ok {
		return nil, nil, errGroupNotFound
	}
	held, ok := t.s.roles.Get(rolename)
	if !ok {
		return nil, nil, errRoleNotFound
	}
	return g, held, nil
}

func (t *Tx) setAnonymousGroup(c *Command, _ Connections) (payload, error) {
	g, err := t.groupOf(c)
	if err != nil {
		return nil, err
	}
	t.s.anonymous = g.GroupName
	t.record(PutAnonymousGroup{GroupName: g.GroupName})
	t.disconnectAnonymous()
	return nil, nil
}

func (t *Tx) getAnonymousGroup(*Command, Connections) (payload, error) {
	return anonymousGroup(t.s.anonymous), nil
}

// groupOf returns the group that a command names.
func (t *Tx) groupOf(c *Command) (*group, error) {
	groupname, err := name(c.args.groupname, errGroupname, errGroupnameUTF8)
	if err != nil {
		return nil, err
	}
	g, ok := t.s.groups.Get(groupname)
	if !ok {
		return nil, errGroupNotFound
	}
	return g, nil
}
