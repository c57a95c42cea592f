package dynsec

import (
	"fmt"

	"signalbox/broker"
)

// Import takes a sound document over, all or nothing. With replace the state
// then holds exactly what the document holds, and everyone is thrown out.
// Without, a name that is there already is an Exists error that lists what
// collides. The default access and the anonymous group are the document's if it
// replaces or if nothing was there before; otherwise they stay, with a warning.
func (t *Tx) Import(d Document, replace bool) (broker.ImportReport, error) {
	if err := d.check(); err != nil {
		return broker.ImportReport{}, err
	}
	if !replace {
		if err := t.collisions(d); err != nil {
			return broker.ImportReport{}, err
		}
	}
	r := broker.ImportReport{Clients: len(d.Clients), Groups: len(d.Groups), Roles: len(d.Roles), Warnings: []string{}}
	clients, groups, roles := t.s.Counts()
	whole := replace || clients+groups+roles == 0
	if replace {
		t.clear()
	}
	t.importRecords(d)
	if whole {
		t.importSettings(d)
	} else {
		r.Warnings = t.settingsKept(d)
	}
	t.s.index = max(t.s.index+1, d.ChangeIndex)
	return r, nil
}

// collisions is the error for the names of a document that are taken.
func (t *Tx) collisions(d Document) error {
	var taken []string
	for _, c := range d.Clients {
		if _, ok := t.s.clients.Get(c.Username); ok {
			taken = append(taken, fmt.Sprintf("client %q is there already", c.Username))
		}
	}
	for _, g := range d.Groups {
		if _, ok := t.s.groups.Get(g.GroupName); ok {
			taken = append(taken, fmt.Sprintf("group %q is there already", g.GroupName))
		}
	}
	for _, r := range d.Roles {
		if _, ok := t.s.roles.Get(r.RoleName); ok {
			taken = append(taken, fmt.Sprintf("role %q is there already", r.RoleName))
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fileError(broker.Exists, taken)
}

// clear removes everything but the settings and throws everyone out.
func (t *Tx) clear() {
	for username := range each(t.s.clients, "") {
		t.cutClient(username)
	}
	t.cutAnonymous()
	s := NewState()
	t.s.clients, t.s.groups, t.s.roles = s.clients, s.groups, s.roles
	t.record(Clear{})
}

func (t *Tx) importRecords(d Document) {
	for _, r := range d.Roles {
		r.ACLs = orderACLs(r.ACLs)
		t.putRole(r)
	}
	member := map[string][]broker.GroupRef{}
	for _, g := range d.Groups {
		t.putGroup(GroupRecord{
			GroupName: g.GroupName, TextName: g.TextName, TextDescription: g.TextDescription,
			Roles: t.ownNames(g.Roles),
		})
		for _, m := range g.Clients {
			member[m.Username] = append(member[m.Username], broker.GroupRef{GroupName: g.GroupName, Priority: m.Priority})
		}
	}
	for _, c := range d.Clients {
		t.putClient(&ClientRecord{
			Username: c.Username, ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
			Disabled: c.Disabled, HasPassword: c.EncodedPassword != "",
			Roles: t.ownNames(c.Roles), Groups: orderGroups(member[c.Username]),
		}, &c.EncodedPassword)
	}
}

// ownNames gives the references in order of evaluation, with the names of the
// roles' records, so that a name is in memory once.
func (t *Tx) ownNames(refs []broker.RoleRef) []broker.RoleRef {
	l := orderRoles(refs)
	for i := range l {
		r, _ := t.s.roles.Get(l[i].RoleName)
		l[i].RoleName = r.RoleName
	}
	return l
}

// importSettings takes the settings over; a document that says nothing about
// the default access leaves it as it is.
func (t *Tx) importSettings(d Document) {
	if d.Defaults != nil {
		t.s.defaults = *d.Defaults
		t.record(PutDefaults{Defaults: *d.Defaults})
	}
	t.s.anonymous = d.AnonymousGroup
	t.record(PutAnonymousGroup{GroupName: d.AnonymousGroup})
	t.cutAnonymous()
}

// settingsKept warns of the document's settings that were not taken over.
func (t *Tx) settingsKept(d Document) []string {
	kept := []string{}
	if d.Defaults != nil && *d.Defaults != t.s.defaults {
		kept = append(kept, "the default access differs and stays as it is")
	}
	if d.AnonymousGroup != "" {
		kept = append(kept, fmt.Sprintf("group %q is not made the anonymous group", d.AnonymousGroup))
	}
	return kept
}

// Document gives the whole state as a document; password gives the hash of a
// client's password, "" for none.
func (s *State) Document(password func(username string) string) Document {
	d := Document{
		ChangeIndex:    s.index,
		Defaults:       &s.defaults,
		AnonymousGroup: s.anonymous,
		Clients:        make([]DocumentClient, 0, s.clients.Len()),
		Groups:         make([]broker.Group, 0, s.groups.Len()),
		Roles:          make([]broker.Role, 0, s.roles.Len()),
	}
	for _, c := range each(s.clients, "") {
		d.Clients = append(d.Clients, DocumentClient{
			Username: c.Username, ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
			Disabled: c.Disabled, Roles: list(c.Roles), EncodedPassword: password(c.Username),
		})
	}
	for _, g := range each(s.groups, "") {
		d.Groups = append(d.Groups, s.documentGroup(g))
	}
	for _, r := range each(s.roles, "") {
		d.Roles = append(d.Roles, viewRole(r))
	}
	return d
}

// documentGroup is viewGroup with the priorities of the members, which stand in
// their records.
func (s *State) documentGroup(g *group) broker.Group {
	v := viewGroup(g)
	for i := range v.Clients {
		c, _ := s.clients.Get(v.Clients[i].Username)
		for _, ref := range c.Groups {
			if ref.GroupName == g.GroupName {
				v.Clients[i].Priority = ref.Priority
			}
		}
	}
	return v
}
