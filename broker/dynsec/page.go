package dynsec

import (
	"context"
	"iter"
	"strings"

	"github.com/tidwall/btree"

	"signalbox/broker"
)

// ListClients returns a page of the clients in order of their names, without live
// connections. Without a Match the cost of a page does not depend on its offset.
func (s *State) ListClients(ctx context.Context, o broker.ListOptions[broker.Client]) (broker.Page[broker.Client], error) {
	bare := func(name string) broker.Client {
		return broker.Client{Username: name, Roles: []broker.RoleRef{}, Groups: []broker.GroupRef{}, Connections: []broker.Connection{}}
	}
	return page(ctx, s.clients, o, viewClient, bare)
}

// ListGroups returns a page of the groups in order of their names.
func (s *State) ListGroups(ctx context.Context, o broker.ListOptions[broker.Group]) (broker.Page[broker.Group], error) {
	bare := func(name string) broker.Group {
		return broker.Group{GroupName: name, Clients: []broker.MemberRef{}, Roles: []broker.RoleRef{}}
	}
	return page(ctx, s.groups, o, viewGroup, bare)
}

// ListRoles returns a page of the roles in order of their names.
func (s *State) ListRoles(ctx context.Context, o broker.ListOptions[broker.Role]) (broker.Page[broker.Role], error) {
	bare := func(name string) broker.Role { return broker.Role{RoleName: name, ACLs: []broker.ACL{}} }
	return page(ctx, s.roles, o, viewRole, bare)
}

// page selects a page of a tree. view makes an entry from its record, bare one that has
// only the name.
func page[R, T any](ctx context.Context, m *btree.Map[string, R], o broker.ListOptions[T], view func(string, R) T, bare func(string) T) (broker.Page[T], error) {
	show := view
	if o.NamesOnly {
		show = func(name string, _ R) T { return bare(name) }
	}
	if o.Match != nil {
		return matched(ctx, m, o, view, show)
	}
	return broker.Page[T]{Total: m.Len(), Items: func(yield func(T, error) bool) {
		for name, r := range span(m, o.Offset, o.Count) {
			if !yield(show(name, r), nil) {
				return
			}
		}
	}}, nil
}

// matched selects a page of the matching entries. It keeps only their names and makes
// the entries when they are read.
func matched[R, T any](ctx context.Context, m *btree.Map[string, R], o broker.ListOptions[T], view, show func(string, R) T) (broker.Page[T], error) {
	hits, err := matchingNames(ctx, m, o, view)
	if err != nil {
		return broker.Page[T]{}, err
	}
	from := min(max(o.Offset, 0), len(hits))
	part := hits[from:]
	if o.Count >= 0 && o.Count < len(part) {
		part = part[:o.Count]
	}
	return broker.Page[T]{Total: len(hits), Items: func(yield func(T, error) bool) {
		for _, name := range part {
			r, _ := m.Get(name)
			if !yield(show(name, r), nil) {
				return
			}
		}
	}}, nil
}

// matchingNames returns the names of the matching entries.
func matchingNames[R, T any](ctx context.Context, m *btree.Map[string, R], o broker.ListOptions[T], view func(string, R) T) (hits []string, err error) {
	if o.NameContains != "" && !strings.Contains(o.NameContains, "\n") {
		return containing(ctx, m, o.NameContains)
	}
	for name, r := range each(m, "") {
		ok, err := broker.Matches(ctx, o.Match, view(name, r))
		if err != nil {
			return nil, err
		}
		if ok {
			hits = append(hits, name)
		}
	}
	return hits, nil
}

// span yields count entries of a tree from the one at offset on; a negative
// count means all. It finds the first one by its rank.
func span[V any](m *btree.Map[string, V], offset, count int) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		first, _, ok := m.GetAt(max(offset, 0))
		if !ok || count == 0 {
			return
		}
		for name, v := range each(m, first) {
			if !yield(name, v) {
				return
			}
			if count--; count == 0 {
				return
			}
		}
	}
}
