package dynsec

import (
	"slices"

	"signalbox/broker"
)

// Import applies the content of a document completely or not at all. With replace the state then
// contains exactly the document, and every client is disconnected. Without, it is
// merged with the state as in [Document.Merge]; a contradiction is an Exists error that
// lists all of them, and clients with changed rights or credentials are disconnected.
// The default access of the document applies if it replaces or if the state was empty
// before; otherwise it stays, with a warning. stored returns the hashes of stored
// passwords, which the state does not contain, "" if there is none; a nil function
// knows none.
func (t *Tx) Import(c *Content, replace bool, stored func(username string) string) (r broker.ImportReport, err error) {
	r.Clients, r.Groups, r.Roles = c.state.Counts()
	clients, groups, roles := t.s.Counts()
	switch {
	case replace || clients+groups+roles == 0:
		if replace {
			t.clear()
		}
		t.adopt(c)
		r.Warnings = t.importSettings(c, replace)
	default:
		if err := t.merge(c, stored); err != nil {
			return broker.ImportReport{}, err
		}
		r.Warnings = t.mergeSettings(c)
	}
	t.s.index = max(t.s.index+1, c.state.index)
	return r, nil
}

// adopt puts all records of a document into a state without any.
func (t *Tx) adopt(c *Content) {
	t.s.clients, t.s.groups, t.s.roles = fork(c.state.clients), fork(c.state.groups), fork(c.state.roles)
	for _, r := range each(t.s.roles, "") {
		t.record(PutRole{RoleRecord: r.RoleRecord})
	}
	for _, g := range each(t.s.groups, "") {
		t.record(PutGroup{GroupRecord: g.GroupRecord})
	}
	t.record(PutClients{Each: c.clients()})
}

// unknownHash stands for a stored password whose hash is unknown. It equals no hash that could
// be imported.
const unknownHash = "kept"

func keptPassword(s *State, stored func(username string) string) func(username string) string {
	return func(username string) string {
		c, ok := s.clients.Get(username)
		if !ok || !c.HasPassword {
			return ""
		}
		if stored != nil && stored(username) != "" {
			return stored(username)
		}
		return unknownHash
	}
}

// clear removes everything but the settings and disconnects every client.
func (t *Tx) clear() {
	for username := range each(t.s.clients, "") {
		t.disconnectClient(username)
	}
	t.disconnectAnonymous()
	s := NewState()
	t.s.clients, t.s.groups, t.s.roles = s.clients, s.groups, s.roles
	t.record(Clear{})
}

// importRecords adds what differs from the state.
func (t *Tx) importRecords(d Document) {
	for _, r := range d.Roles {
		r.ACLs = orderACLs(r.ACLs)
		if t.role(r.RoleName) == nil { // an existing one is the same
			t.putRole(r)
		}
	}
	member := map[string][]broker.GroupRef{}
	for _, g := range d.Groups {
		t.importGroup(GroupRecord{
			GroupName: g.GroupName, TextName: g.TextName, TextDescription: g.TextDescription,
			Roles: t.canonicalNames(g.Roles),
		})
		for _, m := range g.Clients {
			member[m.Username] = append(member[m.Username], broker.GroupRef{GroupName: g.GroupName, Priority: m.Priority})
		}
	}
	for _, c := range d.Clients {
		t.importClient(ClientRecord{
			Username: c.Username, ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
			Disabled: c.Disabled, HasPassword: c.EncodedPassword != "",
			Roles: t.canonicalNames(c.Roles), Groups: orderGroups(member[c.Username]),
		}, c.EncodedPassword)
	}
}

func (t *Tx) importGroup(r GroupRecord) {
	old, ok := t.s.groups.Get(r.GroupName)
	switch {
	case !ok:
		t.putGroup(r)
	case !sameGroup(old.GroupRecord, r):
		t.putGroup(r)
		t.disconnectMembers(t.group(r.GroupName))
	}
}

func (t *Tx) importClient(r ClientRecord, password string) {
	old, ok := t.s.clients.Get(r.Username)
	switch {
	case !ok:
		t.putClient(&r, &password)
	case old.HasPassword != r.HasPassword:
		t.changeClient(&r, &password)
	case !sameClient(*old, r):
		t.changeClient(&r, nil)
	}
}

func sameGroup(a, b GroupRecord) bool {
	return sameText(a.TextName, b.TextName) && sameText(a.TextDescription, b.TextDescription) && slices.Equal(a.Roles, b.Roles)
}

func sameClient(a, b ClientRecord) bool {
	return a.ClientID == b.ClientID && a.Disabled == b.Disabled && sameText(a.TextName, b.TextName) &&
		sameText(a.TextDescription, b.TextDescription) && slices.Equal(a.Roles, b.Roles) && slices.Equal(a.Groups, b.Groups)
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// canonicalNames returns the references in order of evaluation, with the names of the roles'
// records, so that each name is in memory once.
func (t *Tx) canonicalNames(refs []broker.RoleRef) []broker.RoleRef {
	l := orderRoles(refs)
	for i := range l {
		r, _ := t.s.roles.Get(l[i].RoleName)
		l[i].RoleName = r.RoleName
	}
	return l
}

// importSettings applies the settings; a document that does not specify the default
// access leaves it unchanged. It warns when it changes a setting, unless it is to be
// replaced.
func (t *Tx) importSettings(c *Content, replace bool) []string {
	warnings := []string{}
	if c.defaults != nil {
		if !replace && t.s.index > 0 && *c.defaults != t.s.defaults {
			warnings = append(warnings, "the default access was set before, and is now that of the file")
		}
		t.s.defaults = *c.defaults
		t.record(PutDefaults{Defaults: *c.defaults})
	}
	t.s.anonymous = c.state.anonymous
	t.record(PutAnonymousGroup{GroupName: c.state.anonymous})
	t.disconnectAnonymous()
	return warnings
}

// mergeSettings sets an anonymous group if there was none, and warns of the settings
// that stay unchanged.
func (t *Tx) mergeSettings(c *Content) []string {
	warnings := []string{}
	if c.defaults != nil && *c.defaults != t.s.defaults {
		warnings = append(warnings, "the default access differs and stays as it is")
	}
	if name := c.state.anonymous; name != "" && t.s.anonymous == "" {
		t.s.anonymous = name
		t.record(PutAnonymousGroup{GroupName: name})
		t.disconnectAnonymous()
	}
	return warnings
}

// Document returns the whole state as a document; password returns the hash of a
// client's password, "" for none.
func (s *State) Document(password func(username string) string) Document {
	return s.documentOf(anyClient, password)
}

func anyClient(string) bool { return true }

// documentOf is Document with some of the clients only.
func (s *State) documentOf(chosen func(username string) bool, password func(username string) string) Document {
	d := Document{ChangeIndex: s.index, Defaults: &s.defaults, AnonymousGroup: s.anonymous, Clients: []DocumentClient{}}
	members := map[string][]broker.MemberRef{}
	for username, c := range each(s.clients, "") {
		if !chosen(username) {
			continue
		}
		d.Clients = append(d.Clients, DocumentClient{
			Username: username, ClientID: c.ClientID, TextName: c.TextName, TextDescription: c.TextDescription,
			Disabled: c.Disabled, Roles: list(c.Roles), EncodedPassword: password(username),
		})
		for _, ref := range c.Groups {
			members[ref.GroupName] = append(members[ref.GroupName], broker.MemberRef{Username: username, Priority: ref.Priority})
		}
	}
	d.Groups = make([]broker.Group, 0, s.groups.Len())
	for name, g := range each(s.groups, "") {
		d.Groups = append(d.Groups, broker.Group{
			GroupName: name, TextName: g.TextName, TextDescription: g.TextDescription, Clients: list(members[name]), Roles: list(g.Roles),
		})
	}
	d.Roles = make([]broker.Role, 0, s.roles.Len())
	for name, r := range each(s.roles, "") {
		d.Roles = append(d.Roles, viewRole(name, r))
	}
	return d
}
