package dynsec

import (
	"iter"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"signalbox/broker"
)

// State is one version of a broker's access control: all clients, groups and
// roles and the settings. It never changes, so that any number of goroutines
// may read it without a lock; the next version comes out of a [Tx] and shares
// with this one all that stayed the same.
//
// Slices in what its methods return are shared too and must not be written to.
type State struct {
	clients   *btree.Map[string, *ClientRecord]
	groups    *btree.Map[string, *group]
	roles     *btree.Map[string, *role]
	defaults  Defaults
	anonymous string
	index     int64
}

// group is a group's record and who is in it.
type group struct {
	GroupRecord
	members *names
}

// role is a role's record, its compiled ACLs and who holds it directly.
type role struct {
	RoleRecord
	rules   func() *Rules
	clients *names
	groups  *names
}

// names is a sorted set of names.
type names = btree.Map[string, struct{}]

// NewState gives an empty state with Mosquitto's default access.
func NewState() *State {
	return &State{
		clients:  new(btree.Map[string, *ClientRecord]),
		groups:   new(btree.Map[string, *group]),
		roles:    new(btree.Map[string, *role]),
		defaults: DefaultDefaults(),
	}
}

// fork gives a copy of a tree that can be written to without the original
// noticing, in constant time. The library's Copy marks the tree it is called on
// as well; calling it on a copy of the header keeps the original untouched, and
// so free for readers and for further forks.
func fork[V any](m *btree.Map[string, V]) *btree.Map[string, V] {
	header := *m
	return header.Copy()
}

func newGroup(r GroupRecord) *group { return &group{GroupRecord: r, members: new(names)} }

// newRole gives a role without holders. Its ACLs are compiled when first asked for.
func newRole(r RoleRecord) *role {
	return &role{RoleRecord: r, rules: compiled(r), clients: new(names), groups: new(names)}
}

func compiled(r RoleRecord) func() *Rules {
	return sync.OnceValue(func() *Rules { return CompileRules(r) })
}

// Client gives a client's record, without live connections.
func (s *State) Client(username string) (broker.Client, bool) {
	c, ok := s.clients.Get(username)
	if !ok {
		return broker.Client{}, false
	}
	return viewClient(c), true
}

// Group gives a group's record with its members in order of their names.
func (s *State) Group(groupname string) (broker.Group, bool) {
	g, ok := s.groups.Get(groupname)
	if !ok {
		return broker.Group{}, false
	}
	return viewGroup(g), true
}

// Role gives a role's record.
func (s *State) Role(rolename string) (broker.Role, bool) {
	r, ok := s.roles.Get(rolename)
	if !ok {
		return broker.Role{}, false
	}
	return viewRole(r), true
}

// Login gives what a log-in needs to know of a client: the client id that it
// must use ("" for any), whether it is disabled and whether it has a password.
func (s *State) Login(username string) (clientID string, disabled, hasPassword, ok bool) {
	c, ok := s.clients.Get(username)
	if !ok {
		return "", false, false, false
	}
	return c.ClientID, c.Disabled, c.HasPassword, true
}

// Rights compiles the rights of a client: its own roles, then those of its
// groups. The cost depends on the number of its roles only.
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
	return NewRights(username, rules, s.defaults), true
}

// AnonymousRights compiles the rights of clients without a username: the roles
// of the anonymous group, if there is one.
func (s *State) AnonymousRights() *Rights {
	var rules []*Rules
	if g, ok := s.groups.Get(s.anonymous); ok {
		rules = s.appendRules(nil, g.Roles)
	}
	return NewRights("", rules, s.defaults)
}

func (s *State) appendRules(rules []*Rules, refs []broker.RoleRef) []*Rules {
	for _, ref := range refs {
		if r, ok := s.roles.Get(ref.RoleName); ok {
			rules = append(rules, r.rules())
		}
	}
	return rules
}

// Defaults gives the access where no ACL matches.
func (s *State) Defaults() Defaults { return s.defaults }

// AnonymousGroup names the group whose roles count for clients without a
// username, or is "".
func (s *State) AnonymousGroup() string { return s.anonymous }

// ChangeIndex counts the changes ever made.
func (s *State) ChangeIndex() int64 { return s.index }

// Counts gives the numbers of clients, groups and roles.
func (s *State) Counts() (clients, groups, roles int) {
	return s.clients.Len(), s.groups.Len(), s.roles.Len()
}

// each yields the values of a tree from pivot on, in order of their keys.
func each[V any](m *btree.Map[string, V], pivot string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { m.Ascend(pivot, yield) }
}

func viewClient(c *ClientRecord) broker.Client {
	return broker.Client{
		Username:        c.Username,
		ClientID:        c.ClientID,
		TextName:        c.TextName,
		TextDescription: c.TextDescription,
		Disabled:        c.Disabled,
		Roles:           list(c.Roles),
		Groups:          list(c.Groups),
		Connections:     []broker.Connection{},
	}
}

func viewGroup(g *group) broker.Group {
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

func viewRole(r *role) broker.Role {
	v := r.RoleRecord
	v.ACLs = list(v.ACLs)
	return v
}

// list gives a slice that is never nil and that an append does not write into.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return slices.Clip(s)
}
