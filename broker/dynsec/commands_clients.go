package dynsec

import (
	"slices"

	"signalbox/broker"
)

func (t *Tx) createClient(c *Command, _ Connections) (payload, error) {
	r, err := c.newClient()
	if err != nil {
		return nil, err
	}
	if _, ok := t.s.clients.Get(r.Username); ok {
		return nil, errClientExists
	}
	if r.Roles, err = t.resolveRoles(c.args.roles, errRoles); err != nil {
		return nil, err
	}
	if r.Groups, err = t.newGroups(c.args.groups.value); err != nil {
		return nil, err
	}
	password, err := c.passwordHash()
	if err != nil {
		return nil, err
	}
	r.HasPassword = password != nil
	t.putClient(r, password)
	return nil, nil
}

// newClient checks the plain arguments of createClient.
func (c *Command) newClient() (*ClientRecord, error) {
	a := &c.args
	username, err := newName(a.username, errUsername, errUsernameEmpty, errUsernameUTF8)
	switch {
	case err != nil:
		return nil, err
	case a.password.wrong():
		return nil, errPassword
	case a.clientID.wrong():
		return nil, errClientIDCreate
	case !validName(a.clientID.value):
		return nil, errClientIDUTF8
	case a.textName.wrong():
		return nil, errTextName
	case a.textDescription.wrong():
		return nil, errTextDescription
	}
	return &ClientRecord{
		Username:        username,
		ClientID:        a.clientID.value,
		TextName:        a.textName.ptr(),
		TextDescription: a.textDescription.ptr(),
	}, nil
}

// passwordHash returns the hash to store: nil leaves the password unchanged. A password
// whose hash was not set is an error; it is never stored itself.
func (c *Command) passwordHash() (*string, error) {
	if _, ok := c.PasswordToHash(); !ok {
		return nil, nil
	}
	if c.hash == "" {
		return nil, errInternal
	}
	return &c.hash, nil
}

// newGroups returns the groups of a new client. Entries without a name are ignored; a
// duplicate is Mosquitto's internal error.
func (t *Tx) newGroups(refs []ref) ([]broker.GroupRef, error) {
	var l []broker.GroupRef
	for _, r := range refs {
		if !r.name.good {
			continue
		}
		g, ok := t.s.groups.Get(r.name.value)
		if !ok {
			return nil, errGroupNotFound
		}
		if hasGroup(l, g.GroupName) {
			return nil, errInternal
		}
		l = append(l, broker.GroupRef{GroupName: g.GroupName, Priority: r.priority})
	}
	return orderGroups(l), nil
}

func (t *Tx) deleteClientCommand(c *Command, _ Connections) (payload, error) {
	r, err := t.client(c)
	if err != nil {
		return nil, err
	}
	t.deleteClient(r)
	t.disconnectClient(r.Username)
	return nil, nil
}

func (t *Tx) getClient(c *Command, live Connections) (payload, error) {
	r, err := t.client(c)
	if err != nil {
		return nil, err
	}
	return singleRecord[broker.Client]{of: clientNoun, record: live.view(r.Username, r)}, nil
}

func (t *Tx) listClients(c *Command, live Connections) (payload, error) {
	return listed(clientNoun, t.s.clients, c, live.view), nil
}

// view is viewClient with the live connections.
func (live Connections) view(username string, r *ClientRecord) broker.Client {
	v := viewClient(username, r)
	if live != nil {
		v.Connections = list(live(username))
	}
	return v
}

// modifyClient changes the given members. As in Mosquitto, members of a wrong type and
// an empty password are ignored, but a list of roles must be valid.
func (t *Tx) modifyClient(c *Command, _ Connections) (payload, error) {
	r, err := t.client(c)
	if err != nil {
		return nil, err
	}
	next, a := *r, &c.args
	if !validName(a.clientID.value) {
		return nil, errClientIDUTF8
	}
	next.ClientID = a.clientID.or(r.ClientID)
	replace(&next.TextName, a.textName)
	replace(&next.TextDescription, a.textDescription)
	if a.roles.given {
		if next.Roles, err = t.resolveRoles(a.roles, errRoles); err != nil {
			return nil, err
		}
	}
	if a.groups.good {
		if next.Groups, err = t.resolveGroups(a.groups.value); err != nil {
			return nil, err
		}
	}
	password, err := c.passwordHash()
	if err != nil {
		return nil, err
	}
	next.HasPassword = r.HasPassword || password != nil
	t.changeClient(&next, password)
	return nil, nil
}

func (t *Tx) resolveGroups(refs []ref) ([]broker.GroupRef, error) {
	var l []broker.GroupRef
	for _, r := range refs {
		if !r.name.good {
			return nil, errGroupsInvalid
		}
		g, ok := t.s.groups.Get(r.name.value)
		if !ok {
			return nil, errGroupsUnknown
		}
		if !hasGroup(l, g.GroupName) {
			l = append(l, broker.GroupRef{GroupName: g.GroupName, Priority: r.priority})
		}
	}
	return orderGroups(l), nil
}

func (t *Tx) setClientPassword(c *Command, _ Connections) (payload, error) {
	username, err := name(c.args.username, errUsername, errUsernameUTF8)
	switch {
	case err != nil:
		return nil, err
	case !c.args.password.good:
		return nil, errPassword
	case c.args.password.value == "":
		return nil, errPasswordEmpty
	}
	r, ok := t.s.client(username)
	if !ok {
		return nil, errClientNotFound
	}
	password, err := c.passwordHash()
	if err != nil {
		return nil, err
	}
	next := *r
	next.HasPassword = true
	t.changeClient(&next, password)
	return nil, nil
}

func (t *Tx) setClientID(c *Command, _ Connections) (payload, error) {
	username, err := name(c.args.username, errUsername, errUsernameUTF8)
	switch {
	case err != nil:
		return nil, err
	case c.args.clientID.wrong():
		return nil, errClientIDSet
	case !validName(c.args.clientID.value):
		return nil, errClientIDUTF8
	}
	r, ok := t.s.client(username)
	if !ok {
		return nil, errClientNotFound
	}
	next := *r
	next.ClientID = c.args.clientID.value
	t.changeClient(&next, nil)
	return nil, nil
}

func (t *Tx) enableClient(c *Command, _ Connections) (payload, error) {
	r, err := t.client(c)
	if err != nil {
		return nil, err
	}
	if r.Disabled {
		next := *r
		next.Disabled = false
		t.putClient(&next, nil)
	}
	return nil, nil
}

func (t *Tx) disableClient(c *Command, _ Connections) (payload, error) {
	r, err := t.client(c)
	if err != nil {
		return nil, err
	}
	if !r.Disabled {
		next := *r
		next.Disabled = true
		t.changeClient(&next, nil)
	}
	return nil, nil
}

func (t *Tx) addClientRole(c *Command, _ Connections) (payload, error) {
	r, held, err := t.clientAndRole(c)
	switch {
	case err != nil:
		return nil, err
	case hasRole(r.Roles, held.RoleName):
		return nil, errInternal // in Mosquitto's words
	}
	next := *r
	next.Roles = orderRoles(append(slices.Clone(r.Roles), broker.RoleRef{RoleName: held.RoleName, Priority: c.priority()}))
	t.changeClient(&next, nil)
	return nil, nil
}

func (t *Tx) removeClientRole(c *Command, _ Connections) (payload, error) {
	r, held, err := t.clientAndRole(c)
	if err != nil {
		return nil, err
	}
	if hasRole(r.Roles, held.RoleName) {
		next := *r
		next.Roles = withoutRole(r.Roles, held.RoleName)
		t.changeClient(&next, nil)
	}
	return nil, nil
}

// clientAndRole returns the records that addClientRole and removeClientRole name.
func (t *Tx) clientAndRole(c *Command) (*ClientRecord, *role, error) {
	username, err := name(c.args.username, errUsername, errUsernameUTF8)
	if err != nil {
		return nil, nil, err
	}
	rolename, err := name(c.args.rolename, errRolename, errRolenameUTF8)
	if err != nil {
		return nil, nil, err
	}
	r, ok := t.s.client(username)
	if !ok {
		return nil, nil, errClientNotFound
	}
	held, ok := t.s.roles.Get(rolename)
	if !ok {
		return nil, nil, errRoleNotFound
	}
	return r, held, nil
}

// changeClient stores an existing client and disconnects its connections.
func (t *Tx) changeClient(r *ClientRecord, password *string) {
	t.putClient(r, password)
	t.disconnectClient(r.Username)
}

// client returns the client that a command names.
func (t *Tx) client(c *Command) (*ClientRecord, error) {
	username, err := name(c.args.username, errUsername, errUsernameUTF8)
	if err != nil {
		return nil, err
	}
	r, ok := t.s.client(username)
	if !ok {
		return nil, errClientNotFound
	}
	return r, nil
}
