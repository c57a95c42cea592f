package dynsec

// setDefaultACLAccess changes the given defaults; entries without a known type or
// without an access are ignored.
func (t *Tx) setDefaultACLAccess(c *Command, _ Connections) (payload, error) {
	if !c.args.acls.good {
		return nil, errActions
	}
	next := t.s.defaults
	for _, a := range c.args.acls.value {
		next.set(a.aclType.value, a.allow)
	}
	if next != t.s.defaults {
		t.s.defaults = next
		t.record(PutDefaults{Defaults: next})
	}
	return nil, nil
}

func (t *Tx) getDefaultACLAccess(*Command, Connections) (payload, error) {
	return defaultAccess(t.s.defaults.acls()), nil
}

func (t *Tx) getDetails(*Command, Connections) (payload, error) {
	clients, groups, roles := t.s.Counts()
	return details{clients: clients, groups: groups, roles: roles, index: t.s.index}, nil
}
