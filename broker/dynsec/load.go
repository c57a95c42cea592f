package dynsec

import (
	"fmt"
	"iter"
	"slices"
)

// LoadRecords is a whole stored state. Each sequence is read once, roles first, clients
// last; nil is an empty one. Loading is fastest when they are ordered by name (as
// bytes).
type LoadRecords struct {
	Roles          iter.Seq[RoleRecord]
	Groups         iter.Seq[GroupRecord]
	Clients        iter.Seq[ClientRecord]
	Defaults       Defaults
	AnonymousGroup string
	ChangeIndex    int64
}

// Load builds a state at once. Duplicate names and dangling references are errors.
func Load(r LoadRecords) (*State, error) {
	s := NewState()
	s.defaults, s.anonymous, s.index = r.Defaults, r.AnonymousGroup, r.ChangeIndex
	for v := range some(r.Roles) {
		if _, twice := s.roles.Load(v.RoleName, newRole(v)); twice {
			return nil, fmt.Errorf("role %q is there twice", v.RoleName)
		}
	}
	for v := range some(r.Groups) {
		if err := s.loadGroup(v); err != nil {
			return nil, err
		}
	}
	if err := s.loadClients(some(r.Clients)); err != nil {
		return nil, err
	}
	if _, ok := s.groups.Get(s.anonymous); !ok && s.anonymous != "" {
		return nil, fmt.Errorf("anonymous group %q is not there", s.anonymous)
	}
	return s, nil
}

func (s *State) loadGroup(v GroupRecord) error {
	v.Roles = orderRoles(v.Roles)
	for i, ref := range v.Roles {
		r, ok := s.roles.Get(ref.RoleName)
		if !ok {
			return fmt.Errorf("group %q: role %q is not there", v.GroupName, ref.RoleName)
		}
		v.Roles[i].RoleName = r.RoleName
		r.groups.Load(v.GroupName, struct{}{})
	}
	if _, twice := s.groups.Load(v.GroupName, newGroup(v)); twice {
		return fmt.Errorf("group %q is there twice", v.GroupName)
	}
	return nil
}

// loadClients lets a client share its lists with the one before it if they are equal:
// most fleets of devices have one role in common.
func (s *State) loadClients(clients iter.Seq[ClientRecord]) error {
	last := &ClientRecord{}
	for v := range clients {
		c := &v
		c.Roles, c.Groups = orderRoles(v.Roles), orderGroups(v.Groups)
		if err := s.join(c); err != nil {
			return err
		}
		c.Roles, c.Groups = shared(c.Roles, last.Roles), shared(c.Groups, last.Groups)
		if _, twice := s.clients.Load(c.Username, c); twice {
			return fmt.Errorf("client %q is there twice", c.Username)
		}
		last = c
	}
	return nil
}

// join adds a client with its roles and groups, and lets it use their copies of the
// names.
func (s *State) join(c *ClientRecord) error {
	for i, ref := range c.Roles {
		r, ok := s.roles.Get(ref.RoleName)
		if !ok {
			return fmt.Errorf("client %q: role %q is not there", c.Username, ref.RoleName)
		}
		c.Roles[i].RoleName = r.RoleName
		r.clients.Load(c.Username, struct{}{})
	}
	for i, ref := range c.Groups {
		g, ok := s.groups.Get(ref.GroupName)
		if !ok {
			return fmt.Errorf("client %q: group %q is not there", c.Username, ref.GroupName)
		}
		c.Groups[i].GroupName = g.GroupName
		g.members.Load(c.Username, struct{}{})
	}
	return nil
}

func some[T any](s iter.Seq[T]) iter.Seq[T] {
	if s == nil {
		return func(func(T) bool) {}
	}
	return s
}

func shared[T comparable](s, last []T) []T {
	if slices.Equal(s, last) {
		return last
	}
	return s
}
