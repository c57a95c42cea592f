package dynsec

import (
	"fmt"

	"signalbox/broker"
)

// Replay returns the state after the changes of another broker's [Tx], on a state equal
// to the one that it started from. Changes that do not fit the state are an error,
// after which the caller must not continue without them.
func (s *State) Replay(changes []Change) (*State, error) {
	t := s.Begin()
	t.shared = newSharing()
	for _, c := range changes {
		if err := t.replay(c); err != nil {
			return nil, fmt.Errorf("replay %T: %w", c, err)
		}
		t.changes = t.changes[:0]
	}
	next, _, _ := t.End()
	return next, nil
}

func (t *Tx) replay(c Change) error {
	switch c := c.(type) {
	case PutClient:
		return t.replayClient(c)
	case PutGroup:
		return t.replayGroup(c.GroupRecord)
	case PutRole:
		t.putRole(c.RoleRecord)
	case DropClient, DropGroup, DropRole:
		return t.replayDrop(c)
	case PutDefaults:
		t.s.defaults = c.Defaults
	case PutAnonymousGroup:
		return t.replayAnonymousGroup(c.GroupName)
	case PutChangeIndex:
		t.s.index = c.Index
	case Clear:
		t.clear()
		t.s.anonymous = ""
	default:
		return errUnknownChange
	}
	return nil
}

func (t *Tx) replayClient(c PutClient) (err error) {
	r := c.ClientRecord
	if r.Roles, err = t.replayRoles(r.Roles); err != nil {
		return err
	}
	r.Groups = orderGroups(r.Groups)
	for i, ref := range r.Groups {
		g, ok := t.s.groups.Get(ref.GroupName)
		if !ok {
			return misfit("group", ref.GroupName)
		}
		r.Groups[i].GroupName = g.GroupName
	}
	t.putClient(&r, c.Password)
	return nil
}

func (t *Tx) replayGroup(r GroupRecord) (err error) {
	if r.Roles, err = t.replayRoles(r.Roles); err != nil {
		return err
	}
	t.putGroup(r)
	return nil
}

// replayRoles returns references in order of evaluation, with the names of the roles'
// records.
func (t *Tx) replayRoles(refs []broker.RoleRef) ([]broker.RoleRef, error) {
	for _, ref := range refs {
		if _, ok := t.s.roles.Get(ref.RoleName); !ok {
			return nil, misfit("role", ref.RoleName)
		}
	}
	return t.canonicalNames(refs), nil
}

func (t *Tx) replayAnonymousGroup(groupname string) error {
	if _, ok := t.s.groups.Get(groupname); !ok && groupname != "" {
		return misfit("group", groupname)
	}
	t.s.anonymous = groupname
	return nil
}

func (t *Tx) replayDrop(c Change) error {
	switch c := c.(type) {
	case DropClient:
		r, ok := t.s.client(c.Username)
		if !ok {
			return misfit("client", c.Username)
		}
		t.deleteClient(r)
	case DropGroup:
		g, ok := t.s.groups.Get(c.GroupName)
		switch {
		case !ok:
			return misfit("group", c.GroupName)
		case c.GroupName == t.s.anonymous:
			return errGroupAnonymous
		}
		t.deleteGroup(g)
	case DropRole:
		r, ok := t.s.roles.Get(c.RoleName)
		if !ok {
			return misfit("role", c.RoleName)
		}
		t.deleteRole(r)
	}
	return nil
}

// errUnknownChange is the error for a change that this package does not make.
const errUnknownChange refusal = "unknown kind of change"

func misfit(kind, name string) error {
	return fmt.Errorf("%s %q is not there", kind, name)
}
