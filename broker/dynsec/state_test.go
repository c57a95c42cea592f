package dynsec

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/tidwall/btree"

	"signalbox/broker"
)

// dump is a state in plain values, for whole comparison.
type dump struct {
	Clients   []ClientRecord
	Groups    []GroupRecord
	Members   map[string][]string
	Roles     []RoleRecord
	Holders   map[string][]string
	Defaults  Defaults
	Anonymous string
	Index     int64
}

// records returns everything that Load needs to build the state again.
func (s *State) records() LoadRecords {
	return LoadRecords{
		Roles:  valuesOf(s.roles, func(r *role) RoleRecord { return r.RoleRecord }),
		Groups: valuesOf(s.groups, func(g *group) GroupRecord { return g.GroupRecord }),
		Clients: func(yield func(ClientRecord) bool) {
			for username := range each(s.clients, "") {
				if c, _ := s.client(username); !yield(*c) {
					return
				}
			}
		},
		Defaults:       s.defaults,
		AnonymousGroup: s.anonymous,
		ChangeIndex:    s.index,
	}
}

func valuesOf[V, R any](m *btree.Map[string, V], record func(V) R) iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, v := range each(m, "") {
			if !yield(record(v)) {
				return
			}
		}
	}
}

func dumpOf(s *State) dump {
	r := s.records()
	d := dump{
		Clients: slices.Collect(r.Clients), Groups: slices.Collect(r.Groups), Roles: slices.Collect(r.Roles),
		Members: map[string][]string{}, Holders: map[string][]string{},
		Defaults: s.defaults, Anonymous: s.anonymous, Index: s.index,
	}
	for name, g := range each(s.groups, "") {
		d.Members[name] = nonEmpty(g.members.Keys())
	}
	for name, r := range each(s.roles, "") {
		for _, c := range r.clients.Keys() {
			d.Holders[name] = append(d.Holders[name], "client "+c)
		}
		for _, g := range r.groups.Keys() {
			d.Holders[name] = append(d.Holders[name], "group "+g)
		}
	}
	for i := range d.Clients {
		d.Clients[i].Roles, d.Clients[i].Groups = nonEmpty(d.Clients[i].Roles), nonEmpty(d.Clients[i].Groups)
	}
	for i := range d.Groups {
		d.Groups[i].Roles = nonEmpty(d.Groups[i].Roles)
	}
	for i := range d.Roles {
		d.Roles[i].ACLs = nonEmpty(d.Roles[i].ACLs)
	}
	return d
}

// nonEmpty replaces empty lists by nil, so that they compare equal.
func nonEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

func sameState(t *testing.T, what string, want, got *State) {
	t.Helper()
	sameDump(t, what, dumpOf(want), dumpOf(got))
}

// sameDump computes the difference only if there is one, because that takes long.
func sameDump(t *testing.T, what string, want, got dump) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("%s (-want +got):\n%s", what, gocmp.Diff(want, got))
	}
}

// store is the simplest store that repeats changes as documented for Change.
type store struct {
	clients  map[string]ClientRecord
	groups   map[string]GroupRecord
	roles    map[string]RoleRecord
	hashes   map[string]string
	settings LoadRecords
}

func storeOf(s *State) *store {
	st := &store{hashes: map[string]string{}, settings: s.records()}
	st.clear()
	for c := range st.settings.Clients {
		st.clients[c.Username] = c
		if c.HasPassword {
			st.hashes[c.Username] = "before"
		}
	}
	for g := range st.settings.Groups {
		st.groups[g.GroupName] = g
	}
	for r := range st.settings.Roles {
		st.roles[r.RoleName] = r
	}
	return st
}

func (st *store) clear() {
	st.clients, st.groups, st.roles = map[string]ClientRecord{}, map[string]GroupRecord{}, map[string]RoleRecord{}
}

func (st *store) apply(t *testing.T, c Change) {
	t.Helper()
	switch c := c.(type) {
	case PutClient:
		st.refer(t, c.Roles, c.Groups)
		st.clients[c.Username] = c.ClientRecord
		if c.Password != nil {
			st.hashes[c.Username] = *c.Password
		}
		if got := st.hashes[c.Username] != ""; got != c.HasPassword {
			t.Fatalf("client %q: a hash is stored: %t, the record says %t", c.Username, got, c.HasPassword)
		}
	case DropClient:
		delete(st.clients, c.Username)
		delete(st.hashes, c.Username)
	case PutGroup:
		st.refer(t, c.Roles, nil)
		st.groups[c.GroupName] = c.GroupRecord
	case DropGroup:
		delete(st.groups, c.GroupName)
		for name, r := range st.clients {
			r.Groups = withoutGroup(r.Groups, c.GroupName)
			st.clients[name] = r
		}
	case PutRole:
		st.roles[c.RoleName] = c.RoleRecord
	case DropRole:
		st.dropRole(c.RoleName)
	case PutDefaults:
		st.settings.Defaults = c.Defaults
	case PutAnonymousGroup:
		st.settings.AnonymousGroup = c.GroupName
	case PutChangeIndex:
		st.settings.ChangeIndex = c.Index
	case Clear:
		st.clear()
		clear(st.hashes)
	default:
		t.Fatalf("unknown change %T", c)
	}
}

func (st *store) dropRole(rolename string) {
	delete(st.roles, rolename)
	for name, r := range st.clients {
		r.Roles = withoutRole(r.Roles, rolename)
		st.clients[name] = r
	}
	for name, r := range st.groups {
		r.Roles = withoutRole(r.Roles, rolename)
		st.groups[name] = r
	}
}

// refer checks that a record refers only to records that were put before it.
func (st *store) refer(t *testing.T, roles []broker.RoleRef, groups []broker.GroupRef) {
	t.Helper()
	for _, r := range roles {
		if _, ok := st.roles[r.RoleName]; !ok {
			t.Fatalf("reference to role %q before it is stored", r.RoleName)
		}
	}
	for _, g := range groups {
		if _, ok := st.groups[g.GroupName]; !ok {
			t.Fatalf("reference to group %q before it is stored", g.GroupName)
		}
	}
}

func (st *store) load(t *testing.T) *State {
	t.Helper()
	r := st.settings
	r.Clients, r.Groups, r.Roles = byKey(st.clients), byKey(st.groups), byKey(st.roles)
	s, err := Load(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func byKey[K cmp.Ordered, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[k]) {
				return
			}
		}
	}
}

// checkChanges checks that a store that repeats the changes contains the next state.
func checkChanges(t *testing.T, what string, s, next *State, changes []Change) {
	t.Helper()
	st := storeOf(s)
	for c := range Single(changes) {
		st.apply(t, c)
	}
	sameState(t, what+": what the changes make", next, st.load(t))
}

// checkIndexes checks that the reverse indexes agree with the records: a state that is
// built from the records alone is the same.
func checkIndexes(t *testing.T, s *State) {
	t.Helper()
	again, err := Load(s.records())
	if err != nil {
		t.Fatal(err)
	}
	sameState(t, "built from the records alone", again, s)
}

func request(t testing.TB, commands ...map[string]any) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{"commands": commands})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
