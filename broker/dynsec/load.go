package dynsec

import (
	"fmt"
	"iter"
	"sync"
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
	s.clients = packed(s.clients) // before the next trees grow, for the peak of memory
	s.joinAll(each(s.clients, ""))
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
// and groups are there. They have to be joined to these; see joinAll.
func (s *State) loadClients(shared *sharing, records iter.Seq[ClientRecord]) error {
	for c := range records {
		r, ok := shared.find(&c)
		if !ok {
			r = shared.add(c.sharable())
			if err := s.resolve(r); err != nil {
				return fmt.Errorf("client %q: %w", c.Username, err)
			}
		}
		if _, twice := s.clients.Load(c.Username, r.with(&c)); twice {
			return fmt.Errorf("client %q is there twice", c.Username)
		}
	}
	return nil
}

// resolve lets the lists of a client use the names of the roles' and groups' records.
func (s *State) resolve(c *ClientRecord) error {
	for i, ref := range c.Roles {
		r, ok := s.roles.Get(ref.RoleName)
		if !ok {
			return misfit("role", ref.RoleName)
		}
		c.Roles[i].RoleName = r.RoleName
	}
	for i, ref := range c.Groups {
		g, ok := s.groups.Get(ref.GroupName)
		if !ok {
			return misfit("group", ref.GroupName)
		}
		c.Groups[i].GroupName = g.GroupName
	}
	return nil
}

// joinAll adds clients to the sets of their roles' holders and, at the same time, to those of their groups'
// members. These are no other state's.
func (s *State) joinAll(clients iter.Seq2[string, *ClientRecord]) {
	var joining sync.WaitGroup
	joining.Go(func() {
		for username, c := range clients {
			for i := range c.Roles {
				r, _ := s.roles.Get(c.Roles[i].RoleName)
				r.clients.Load(username, struct{}{})
			}
		}
	})
	for username, c := range clients {
		for i := range c.Groups {
			g, _ := s.groups.Get(c.Groups[i].GroupName)
			g.members.Load(username, struct{}{})
		}
	}
	joining.Wait()
}

// pack packs the trees of the roles' holders and the groups' members.
func (s *State) pack() {
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
