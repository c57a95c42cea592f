package dynsec

import (
	"fmt"
	"iter"
)

// LoadRecords is a whole stored state. Each sequence is read once, roles first, clients
// last; nil is an empty one. Loading is fastest when they are ordered by name (as
// bytes). Lists of clients are copied.
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
	if err := s.loadClients(newSharing(), some(r.Clients)); err != nil {
		return nil, err
	}
	s.pack()
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
			return fmt.Errorf("group %q: %w", v.GroupName, misfit("role", ref.RoleName))
		}
		v.Roles[i].RoleName = r.RoleName
		r.groups.Load(v.GroupName, struct{}{})
	}
	if _, twice := s.groups.Load(v.GroupName, newGroup(v)); twice {
		return fmt.Errorf("group %q is there twice", v.GroupName)
	}
	return nil
}

// loadClients adds clients, which share their records if they differ only in their names. Their roles
// and groups are there, and are no other state's.
func (s *State) loadClients(shared *sharing, records iter.Seq[ClientRecord]) error {
	memberships := map[*ClientRecord][]*names{}
	for c := range records {
		r, ok := shared.find(&c)
		if !ok {
			r = shared.add(c.sharable())
		}
		sets, ok := memberships[r]
		if !ok {
			var err error
			if sets, err = s.memberships(r); err != nil {
				return fmt.Errorf("client %q: %w", c.Username, err)
			}
			memberships[r] = sets
		}
		for _, set := range sets {
			set.Load(c.Username, struct{}{})
		}
		if _, twice := s.clients.Load(c.Username, r.with(&c)); twice {
			return fmt.Errorf("client %q is there twice", c.Username)
		}
	}
	return nil
}

// memberships returns the sets of holders and members that clients with these lists are in, and
// lets the lists use the names of the roles' and groups' records.
func (s *State) memberships(c *ClientRecord) (sets []*names, err error) {
	for i, ref := range c.Roles {
		r, ok := s.roles.Get(ref.RoleName)
		if !ok {
			return nil, misfit("role", ref.RoleName)
		}
		c.Roles[i].RoleName = r.RoleName
		sets = append(sets, r.clients)
	}
	for i, ref := range c.Groups {
		g, ok := s.groups.Get(ref.GroupName)
		if !ok {
			return nil, misfit("group", ref.GroupName)
		}
		c.Groups[i].GroupName = g.GroupName
		sets = append(sets, g.members)
	}
	return sets, nil
}

// pack packs the trees that have an entry for each client.
func (s *State) pack() {
	s.clients = packed(s.clients)
	for _, r := range each(s.roles, "") {
		r.clients = packed(r.clients)
	}
	for _, g := range each(s.groups, "") {
		g.members = packed(g.members)
	}
}

func some[T any](s iter.Seq[T]) iter.Seq[T] {
	if s == nil {
		return func(func(T) bool) {}
	}
	return s
}
