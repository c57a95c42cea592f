package dynsec

import (
	"iter"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"signalbox/broker"
)

// State is one version of a broker's access control: all clients, groups and roles and
// the settings. It is immutable, so that any number of goroutines may read it without a
// lock; the next version is made by a [Tx] and shares with this one all that stayed the
// same.
//
// Slices in the results of its methods are shared too and must not be modified.
type State struct {
	clients   *clients
	groups    *btree.Map[string, *group]
	roles     *btree.Map[string, *role]
	defaults  Defaults
	anonymous string
	index     int64
}

// group is a group's record and its members.
type group struct {
	GroupRecord
	members *names
}

// role is a role's record, its compiled ACLs and its direct holders.
type role struct {
	RoleRecord
	rules   func() *rules
	clients *names
	groups  *names
}

// names is a sorted set of names.
type names = btree.Map[string, struct{}]

// NewState returns an empty state with Mosquitto's default access.
func NewState() *State {
	return &State{
		clients:  new(clients),
		groups:   new(btree.Map[string, *group]),
		roles:    new(btree.Map[string, *role]),
		defaults: DefaultDefaults(),
	}
}

// fork returns a copy of a tree that can be modified without affecting the original, in
// constant time. The library's Copy marks the tree it is called on as well; calling it
// on a copy of the header leaves the original untouched, and so free for readers and
// for further forks.
func fork[V any](m *btree.Map[string, V]) *btree.Map[string, V] {
	header := *m
	return header.Copy()
}

func newGroup(r GroupRecord) *group { return &group{GroupRecord: r, members: new(names)} }

// newRole returns a role without holders. Its ACLs are compiled at the first use.
func newRole(r RoleRecord) *role {
	return &role{RoleRecord: r, rules: compiled(r), clients: new(names), groups: new(names)}
}

func compiled(r RoleRecord) func() *rules {
	return sync.OnceValue(func() *rules { return compileRules(r) })
}

// Client returns a client's record, without live connections.
func (s *State) Client(username string) (broker.Client, bool) {
	c, ok := s.clients.Get(username)
	if !ok {
		return broker.Client{}, false
	}
	return viewClient(username, c), true
}

// Group returns a group's record with its members in order of their names.
func (s *State) Group(groupname string) (broker.Group, bool) {
	g, ok := s.groups.Get(groupname)
	if !ok {
		return broker.Group{}, false
	}
	return viewGroup(g.GroupName, g), true
}

// Role returns a role's record.
func (s *State) Role(rolename string) (broker.Role, bool) {
	r, ok := s.roles.Get(rolename)
	if !ok {
		return broker.Role{}, false
	}
	return viewRole(r.RoleName, r), true
}

// Login returns what authentication needs: the client id that the client must use (""
// for any), whether it is disabled and whether it has a password.
func (s *State) Login(username string) (clientID string, disabled, hasPassword, ok bool) {
	c, ok := s.clients.Get(username)
	if !ok {
		return "", false, false, false
	}
	return c.ClientID, c.Disabled, c.HasPassword, true
}

// Rights compiles the rights of a client: its own roles, then those of its groups. The
// cost depends only on the number of its roles.
func (s *State) Rights(username string) (*Rights, bool) {
	c, ok := s.clients.Get(username)
	if !ok {
		return nil, false
	}
	rules := s.appendRules(nil, c.Roles)
	for _, ref := range c.Groups {
		if g, ok := s.groups.Get(ref.GroupName); ok {
			rules = s.appendRules(rules, g.Roles)
		}
	}
	return newRights(username, rules, s.defaults), true
}

// AnonymousRights compiles the rights of clients without a username: the roles of the
// anonymous group, if there is one.
func (s *State) AnonymousRights() *Rights {
	var rules []*rules
	if g, ok := s.groups.Get(s.anonymous); ok {
		rules = s.appendRules(nil, g.Roles)
	}
	return newRights("", rules, s.defaults)
}

func (s *State) appendRules(rules []*rules, refs []broker.RoleRef) []*rules {
	for _, ref := range refs {
		if r, ok := s.roles.Get(ref.RoleName); ok {
			rules = append(rules, r.rules())
		}
	}
	return rules
}

// Defaults returns the access for events that no ACL matches.
func (s *State) Defaults() Defaults { return s.defaults }

// AnonymousGroup returns the name of the group whose roles apply to clients without a
// username, or "".
func (s *State) AnonymousGroup() string { return s.anonymous }

// ChangeIndex returns the number of changes ever made.
func (s *State) ChangeIndex() int64 { return s.index }

// Counts returns the numbers of clients, groups and roles.
func (s *State) Counts() (clients, groups, roles int) {
	return s.clients.Len(), s.groups.Len(), s.roles.Len()
}

// each yields the values of a tree from pivot on, in order of their keys.
func each[V any](m *btree.Map[string, V], pivot string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { m.Ascend(pivot, yield) }
}

func viewClient(username string, c *ClientRecord) broker.Client {
	return broker.Client{
		Username:        username,
		ClientID:        c.ClientID,
		TextName:        c.TextName,
		TextDescription: c.TextDescription,
		Disabled:        c.Disabled,
		Roles:           list(c.Roles),
		Groups:          list(c.Groups),
		Connections:     []broker.Connection{},
	}
}

func viewGroup(_ string, g *group) broker.Group {
	members := make([]broker.MemberRef, 0, g.members.Len())
	for username := range each(g.members, "") {
		members = append(members, broker.MemberRef{Username: username, Priority: broker.NoPriority})
	}
	return broker.Group{
		GroupName:       g.GroupName,
		TextName:        g.TextName,
		TextDescription: g.TextDescription,
		Clients:         members,
		Roles:           list(g.Roles),
	}
}

func viewRole(_ string, r *role) broker.Role {
	v := r.RoleRecord
	v.ACLs = list(v.ACLs)
	return v
}

// list returns a slice that is not nil and that an append does not overwrite.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return slices.Clip(s)
}
