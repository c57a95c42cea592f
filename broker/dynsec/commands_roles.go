package dynsec

import (
	"slices"

	"signalbox/broker"
)

func (t *Tx) createRole(c *Command, _ Connections) (payload, error) {
	a := &c.args
	rolename, err := newName(a.rolename, errRolename, errRolenameEmpty, errRolenameUTF8)
	switch {
	case err != nil:
		return nil, err
	case a.textName.wrong():
		return nil, errTextName
	case a.textDescription.wrong():
		return nil, errTextDescription
	case a.wildcardSubs.wrong():
		return nil, errWildcardSubs
	}
	if _, ok := t.s.roles.Get(rolename); ok {
		return nil, errRoleExists
	}
	t.putRole(RoleRecord{
		RoleName:          rolename,
		TextName:          a.textName.ptr(),
		TextDescription:   a.textDescription.ptr(),
		AllowWildcardSubs: a.wildcardSubs.or(true),
		ACLs:              validACLs(a.acls.value),
	})
	return nil, nil
}

// validACLs returns the ACLs of a list. As in Mosquitto, entries without a known type
// or without a topic are left out, as are those that repeat a type and topic; the topic
// is not checked to be a filter. Callers that can report errors check before.
func validACLs(args []aclArg) []broker.ACL {
	type key struct {
		aclType broker.ACLType
		topic   string
	}
	seen := make(map[key]struct{}, len(args))
	acls := make([]broker.ACL, 0, len(args))
	for _, a := range args {
		aclType, ok := parseACLType(a.aclType.value)
		k := key{aclType, a.topic.value}
		if _, twice := seen[k]; twice || !ok || !validName(k.topic) || k.topic == "" {
			continue
		}
		seen[k] = struct{}{}
		acls = append(acls, broker.ACL{ACLType: aclType, Topic: k.topic, Priority: a.priority, Allow: a.allow.value})
	}
	return orderACLs(acls)
}

func (t *Tx) deleteRoleCommand(c *Command, _ Connections) (payload, error) {
	r, err := t.roleOf(c, errRoleNotFound)
	if err != nil {
		return nil, err
	}
	t.disconnectHolders(r)
	t.deleteRole(r)
	return nil, nil
}

func (t *Tx) getRole(c *Command, _ Connections) (payload, error) {
	r, err := t.roleOf(c, errRoleNotFound)
	if err != nil {
		return nil, err
	}
	return singleRecord[broker.Role]{of: roleNoun, record: viewRole(r.RoleName, r)}, nil
}

func (t *Tx) listRoles(c *Command, _ Connections) (payload, error) {
	return listed(roleNoun, t.s.roles, c, viewRole), nil
}

// modifyRole changes the given members; as in Mosquitto, members of a wrong type are
// ignored. A change of texts alone disconnects no client.
func (t *Tx) modifyRole(c *Command, _ Connections) (payload, error) {
	r, err := t.roleOf(c, errRoleNone)
	if err != nil {
		return nil, err
	}
	next, a := r.RoleRecord, &c.args
	replace(&next.TextName, a.textName)
	replace(&next.TextDescription, a.textDescription)
	next.AllowWildcardSubs = a.wildcardSubs.or(r.AllowWildcardSubs)
	if a.acls.good {
		next.ACLs = validACLs(a.acls.value)
	}
	t.putRole(next)
	if a.acls.good || next.AllowWildcardSubs != r.AllowWildcardSubs {
		t.disconnectHolders(r)
	}
	return nil, nil
}

func (t *Tx) addRoleACL(c *Command, _ Connections) (payload, error) {
	r, acl, err := t.roleAndACL(c)
	switch {
	case err != nil:
		return nil, err
	case aclIndex(r.ACLs, acl) >= 0:
		return nil, errACLExists
	}
	next := r.RoleRecord
	next.ACLs = orderACLs(append(slices.Clone(r.ACLs), acl))
	t.changeRole(r, next)
	return nil, nil
}

func (t *Tx) removeRoleACL(c *Command, _ Connections) (payload, error) {
	r, acl, err := t.roleAndACL(c)
	if err != nil {
		return nil, err
	}
	i := aclIndex(r.ACLs, acl)
	if i < 0 {
		return nil, errACLNotFound
	}
	next := r.RoleRecord
	next.ACLs = slices.Delete(slices.Clone(r.ACLs), i, i+1)
	t.changeRole(r, next)
	return nil, nil
}

// changeRole stores a role whose ACLs changed and disconnects its holders.
func (t *Tx) changeRole(r *role, next RoleRecord) {
	t.putRole(next)
	t.disconnectHolders(r)
}

// roleAndACL returns the role that addRoleACL and removeRoleACL name, and the ACL.
func (t *Tx) roleAndACL(c *Command) (*role, broker.ACL, error) {
	r, err := t.roleOf(c, errRoleNotFound)
	if err != nil {
		return nil, broker.ACL{}, err
	}
	a := &c.args
	if !a.aclType.good {
		return nil, broker.ACL{}, errACLType
	}
	aclType, ok := parseACLType(a.aclType.value)
	switch {
	case !ok:
		return nil, broker.ACL{}, errACLTypeUnknown
	case !a.topic.good:
		return nil, broker.ACL{}, errTopic
	case !validName(a.topic.value):
		return nil, broker.ACL{}, errTopicUTF8
	case !broker.ValidFilter(a.topic.value):
		return nil, broker.ACL{}, errTopicInvalid
	}
	return r, broker.ACL{
		ACLType:  aclType,
		Topic:    a.topic.value,
		Priority: clamp(a.priority.or(0)),
		Allow:    a.allow.value,
	}, nil
}

// aclIndex returns the index of the ACL with the same type and topic, or -1.
func aclIndex(acls []broker.ACL, a broker.ACL) int {
	return slices.IndexFunc(acls, func(b broker.ACL) bool { return b.ACLType == a.ACLType && b.Topic == a.Topic })
}

// roleOf returns the role that a command names, or the error none.
func (t *Tx) roleOf(c *Command, none refusal) (*role, error) {
	rolename, err := name(c.args.rolename, errRolename, errRolenameUTF8)
	if err != nil {
		return nil, err
	}
	r, ok := t.s.roles.Get(rolename)
	if !ok {
		return nil, none
	}
	return r, nil
}

// resolveRoles returns the roles of a list that may be absent; of duplicates the first
// counts. Unsound is the error for a malformed list.
func (t *Tx) resolveRoles(refs arg[[]ref], unsound refusal) ([]broker.RoleRef, error) {
	if refs.wrong() {
		return nil, unsound
	}
	var l []broker.RoleRef
	for _, r := range refs.value {
		if !r.name.good {
			return nil, unsound
		}
		held, ok := t.s.roles.Get(r.name.value)
		if !ok {
			return nil, errRoleNotFound
		}
		if !hasRole(l, held.RoleName) {
			l = append(l, broker.RoleRef{RoleName: held.RoleName, Priority: r.priority})
		}
	}
	return orderRoles(l), nil
}
