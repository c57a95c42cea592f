package dynsec

import (
	"slices"

	"signalbox/broker"
)

// merge returns the union of two documents, so that the password_file and the acl_file
// of one broker, or such a file and the state of a broker, become one. Clients and
// groups of the same name become one with the memberships of both. If one document has
// the group [EverybodyName], the clients of the other join it. Two passwords for one
// client, different roles of the same name and different anonymous groups are a
// *broker.Error of kind Exists that names them. Both documents stay unchanged.
func (d Document) merge(other Document) (Document, error) {
	var c checker
	m := Document{ChangeIndex: max(d.ChangeIndex, other.ChangeIndex), Defaults: d.Defaults, AnonymousGroup: d.AnonymousGroup}
	if other.Defaults != nil {
		m.Defaults = other.Defaults
	}
	if m.AnonymousGroup == "" {
		m.AnonymousGroup = other.AnonymousGroup
	} else if other.AnonymousGroup != "" && other.AnonymousGroup != m.AnonymousGroup {
		c.add("the anonymous group is %q here and %q there", m.AnonymousGroup, other.AnonymousGroup)
	}
	m.Clients = mergeBy(d.Clients, other.Clients, func(v DocumentClient) string { return v.Username }, c.joinClients)
	m.Groups = mergeBy(d.Groups, other.Groups, func(v broker.Group) string { return v.GroupName }, c.joinGroups)
	m.Roles = mergeBy(d.Roles, other.Roles, func(v broker.Role) string { return v.RoleName }, c.sameRole)
	if len(c.problems) > 0 {
		return Document{}, fileError(broker.Exists, c.problems)
	}
	if slices.ContainsFunc(other.Groups, isEverybody) {
		m.joinEverybody(d.Clients)
	}
	if slices.ContainsFunc(d.Groups, isEverybody) {
		m.joinEverybody(other.Clients)
	}
	m.order()
	return m, nil
}

// mergeBy returns the records of both lists, those with the same name joined.
func mergeBy[T any](a, b []T, name func(T) string, join func(x, y T) T) []T {
	merged := slices.Clone(a)
	at := make(map[string]int, len(a))
	for i, v := range merged {
		at[name(v)] = i
	}
	for _, v := range b {
		if i, ok := at[name(v)]; ok {
			merged[i] = join(merged[i], v)
		} else {
			merged = append(merged, v)
		}
	}
	return merged
}

func (c *checker) joinClients(a, b DocumentClient) DocumentClient {
	if a.EncodedPassword != "" && b.EncodedPassword != "" && a.EncodedPassword != b.EncodedPassword {
		c.add("client %q has a password here and another there", a.Username)
	}
	if a.ClientID != "" && b.ClientID != "" && a.ClientID != b.ClientID {
		c.add("client %q is bound to the client id %q here and to %q there", a.Username, a.ClientID, b.ClientID)
	}
	if a.EncodedPassword == "" {
		a.EncodedPassword = b.EncodedPassword
	}
	if a.ClientID == "" {
		a.ClientID = b.ClientID
	}
	a.TextName, a.TextDescription = firstText(a.TextName, b.TextName), firstText(a.TextDescription, b.TextDescription)
	a.Disabled = a.Disabled || b.Disabled
	a.Roles = joinRoles(a.Roles, b.Roles)
	return a
}

func (c *checker) joinGroups(a, b broker.Group) broker.Group {
	a.TextName, a.TextDescription = firstText(a.TextName, b.TextName), firstText(a.TextDescription, b.TextDescription)
	a.Roles = joinRoles(a.Roles, b.Roles)
	a.Clients = joinMembers(a.Clients, b.Clients)
	return a
}

func (c *checker) sameRole(a, b broker.Role) broker.Role {
	if a.AllowWildcardSubs != b.AllowWildcardSubs || !slices.Equal(orderACLs(a.ACLs), orderACLs(b.ACLs)) {
		c.add("role %q is there already with other ACLs", a.RoleName)
	}
	return a
}

func joinRoles(a, b []broker.RoleRef) []broker.RoleRef {
	return mergeBy(a, b, func(r broker.RoleRef) string { return r.RoleName },
		func(x, _ broker.RoleRef) broker.RoleRef { return x })
}

func isEverybody(g broker.Group) bool { return g.GroupName == everybodyName }

func (d *Document) joinEverybody(clients []DocumentClient) {
	refs := make([]broker.MemberRef, 0, len(clients))
	for _, c := range clients {
		refs = append(refs, broker.MemberRef{Username: c.Username, Priority: broker.NoPriority})
	}
	g := &d.Groups[slices.IndexFunc(d.Groups, isEverybody)]
	g.Clients = joinMembers(g.Clients, refs)
}

func joinMembers(a, b []broker.MemberRef) []broker.MemberRef {
	return mergeBy(a, b, func(m broker.MemberRef) string { return m.Username },
		func(x, _ broker.MemberRef) broker.MemberRef { return x })
}

// firstText returns the first text that is not nil.
func firstText(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}
