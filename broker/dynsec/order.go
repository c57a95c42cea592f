package dynsec

import (
	"cmp"
	"slices"

	"signalbox/broker"
)

// Priorities are limited to ±maxPriority, as Mosquitto does.
const maxPriority = 100_000

// aclTypes are the ACL types in the order in which they appear in a role.
var aclTypes = []broker.ACLType{
	broker.PublishClientSend, broker.PublishClientReceive,
	broker.SubscribeLiteral, broker.SubscribePattern,
	broker.UnsubscribeLiteral, broker.UnsubscribePattern,
}

// parseACLType returns an ACL type by its case-insensitive name.
func parseACLType(s string) (broker.ACLType, bool) {
	for _, t := range aclTypes {
		if equalFold(string(t), s) {
			return t, true
		}
	}
	return "", false
}

// byPriority orders by priority from high to low, then by name.
func byPriority(p, q broker.Priority, a, b string) int {
	return cmp.Or(cmp.Compare(q, p), cmp.Compare(a, b))
}

// orderRoles returns a copy in order of evaluation.
func orderRoles(refs []broker.RoleRef) []broker.RoleRef {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b broker.RoleRef) int {
		return byPriority(a.Priority, b.Priority, a.RoleName, b.RoleName)
	})
	return refs
}

// orderGroups returns a copy in order of evaluation.
func orderGroups(refs []broker.GroupRef) []broker.GroupRef {
	refs = slices.Clone(refs)
	slices.SortFunc(refs, func(a, b broker.GroupRef) int {
		return byPriority(a.Priority, b.Priority, a.GroupName, b.GroupName)
	})
	return refs
}

// orderACLs returns a copy ordered by type and then by priority from high to low; the
// order of equal ones is kept.
func orderACLs(acls []broker.ACL) []broker.ACL {
	acls = slices.Clone(acls)
	slices.SortStableFunc(acls, func(a, b broker.ACL) int {
		return cmp.Or(
			cmp.Compare(slices.Index(aclTypes, a.ACLType), slices.Index(aclTypes, b.ACLType)),
			cmp.Compare(b.Priority, a.Priority))
	})
	return acls
}

// clamp limits a priority.
func clamp(p int) int { return min(max(p, -maxPriority), maxPriority) }

func hasRole(refs []broker.RoleRef, rolename string) bool {
	return slices.ContainsFunc(refs, func(r broker.RoleRef) bool { return r.RoleName == rolename })
}

func hasGroup(refs []broker.GroupRef, groupname string) bool {
	return slices.ContainsFunc(refs, func(g broker.GroupRef) bool { return g.GroupName == groupname })
}

func withoutRole(refs []broker.RoleRef, rolename string) []broker.RoleRef {
	return slices.DeleteFunc(slices.Clone(refs), func(r broker.RoleRef) bool { return r.RoleName == rolename })
}

func withoutGroup(refs []broker.GroupRef, groupname string) []broker.GroupRef {
	return slices.DeleteFunc(slices.Clone(refs), func(g broker.GroupRef) bool { return g.GroupName == groupname })
}
