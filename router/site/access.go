package site

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// defaultTypes are the types of the default access, in the order of the API.
var defaultTypes = []string{"publishClientSend", "publishClientReceive", "subscribe", "unsubscribe"}

// wanted returns the access control after the changes of a file. Objects that the file lacks
// are deleted if prune reports so.
func (a *access) wanted(b *Broker, prune func(kind, name string) bool) *access {
	w := a.clone()
	delete(w.roles, lockRole) // of an interrupted run
	for _, d := range b.DefaultACL {
		w.defaults[d.ACLType] = d.Allow
	}
	if b.AnonymousGroup != nil {
		w.anonymous = *b.AnonymousGroup
	}
	remove(w.roles, b.Roles, Role.name, func(name string) bool { return prune("role", name) })
	remove(w.groups, b.Groups, Group.name, func(name string) bool { return prune("group", name) })
	remove(w.clients, b.Clients, Client.name, func(name string) bool { return prune("client", name) })
	for _, r := range b.Roles {
		w.roles[r.RoleName] = r.onto(w.roles[r.RoleName], a.hasRole(r.RoleName))
	}
	for _, g := range b.Groups {
		w.groups[g.GroupName] = g.onto(w.groups[g.GroupName])
	}
	for _, c := range b.Clients {
		w.clients[c.Username] = c.onto(w.clients[c.Username])
	}
	w.dropDangling()
	return w
}

func (a *access) clone() *access {
	return &access{defaults: maps.Clone(a.defaults), anonymous: a.anonymous, roles: maps.Clone(a.roles), groups: maps.Clone(a.groups), clients: maps.Clone(a.clients)}
}

func (a *access) hasRole(name string) bool { return hasKey(a.roles, name) }

// remove deletes the objects that a declared list lacks. A list that is absent has no say.
func remove[D, H any](have map[string]H, declared []D, name func(D) string, prune func(string) bool) {
	if declared == nil {
		return
	}
	keep := map[string]bool{}
	for _, d := range declared {
		keep[name(d)] = true
	}
	maps.DeleteFunc(have, func(name string, _ H) bool { return !keep[name] && prune(name) })
}

// dropDangling removes references to what is deleted, as the broker does.
func (a *access) dropDangling() {
	noRole := func(r broker.RoleRef) bool { return !a.hasRole(r.RoleName) }
	noGroup := func(r broker.GroupRef) bool { return !hasKey(a.groups, r.GroupName) }
	for name, g := range a.groups {
		g.Roles = slices.DeleteFunc(slices.Clone(g.Roles), noRole)
		a.groups[name] = g
	}
	for name, c := range a.clients {
		c.Roles, c.Groups = slices.DeleteFunc(slices.Clone(c.Roles), noRole), slices.DeleteFunc(slices.Clone(c.Groups), noGroup)
		a.clients[name] = c
	}
	if !hasKey(a.groups, a.anonymous) {
		a.anonymous = ""
	}
}

// onto returns the role after the change.
func (r Role) onto(have broker.Role, exists bool) broker.Role {
	if !exists {
		have.AllowWildcardSubs = true
	}
	have.RoleName = r.RoleName
	have.TextName, have.TextDescription = or(r.TextName, have.TextName), or(r.TextDescription, have.TextDescription)
	if r.AllowWildcardSubs != nil {
		have.AllowWildcardSubs = *r.AllowWildcardSubs
	}
	if r.ACLs != nil {
		have.ACLs = nil
		for _, acl := range r.ACLs {
			have.ACLs = append(have.ACLs, broker.ACL(acl))
		}
	}
	return have
}

func (g Group) onto(have broker.Group) broker.Group {
	have.GroupName = g.GroupName
	have.TextName, have.TextDescription = or(g.TextName, have.TextName), or(g.TextDescription, have.TextDescription)
	if g.Roles != nil {
		have.Roles = roleRefs(g.Roles)
	}
	return have
}

func (c Client) onto(have broker.Client) broker.Client {
	have.Username = c.Username
	have.TextName, have.TextDescription = or(c.TextName, have.TextName), or(c.TextDescription, have.TextDescription)
	if c.ClientID != nil {
		have.ClientID = *c.ClientID
	} else if strings.HasPrefix(have.ClientID, unfinished) {
		have.ClientID = ""
	}
	if c.Disabled != nil {
		have.Disabled = *c.Disabled
	}
	if c.Roles != nil {
		have.Roles = roleRefs(c.Roles)
	}
	if c.Groups != nil {
		have.Groups = groupRefs(c.Groups)
	}
	return have
}

func or[T any](first, otherwise *T) *T {
	if first != nil {
		return first
	}
	return otherwise
}

// between returns a role that allows nothing that one of the two denies or lacks: with the
// denials of both, and the allowing rules of each that the other one covers. Where other
// roles are as before, or as wanted, or between, no client is allowed what neither state
// allows; DESIGN.md has the proof.
func between(old, wanted broker.Role) broker.Role {
	r := wanted
	r.AllowWildcardSubs = old.AllowWildcardSubs && wanted.AllowWildcardSubs
	r.ACLs = nil
	for _, acl := range slices.Concat(old.ACLs, wanted.ACLs) {
		if !acl.Allow {
			r.ACLs = withACL(r.ACLs, acl)
		}
	}
	denials := slices.Clone(r.ACLs)
	for _, acl := range wanted.ACLs {
		if isCovered(acl, old.ACLs, denials) {
			r.ACLs = withACL(r.ACLs, acl)
		}
	}
	for _, acl := range old.ACLs {
		if isCovered(acl, wanted.ACLs, denials) {
			r.ACLs = withACL(r.ACLs, acl)
		}
	}
	return r
}

// withACL adds a rule. A role has one for each type and topic: a denial replaces a lower one,
// and an allowing rule replaces nothing.
func withACL(list []broker.ACL, acl broker.ACL) []broker.ACL {
	i := slices.IndexFunc(list, func(other broker.ACL) bool { return other.ACLType == acl.ACLType && other.Topic == acl.Topic })
	if i < 0 {
		return append(list, acl)
	}
	if !acl.Allow && acl.Priority > list[i].Priority {
		list[i] = acl
	}
	return list
}

// isCovered reports whether an allowing rule decides nothing that a rule of the other state
// does not allow: one with topics that include its own, and with a higher priority, or
// the same one if no denial has that.
func isCovered(acl broker.ACL, by, denials []broker.ACL) bool {
	denied := slices.ContainsFunc(denials, func(d broker.ACL) bool { return d.ACLType == acl.ACLType && d.Priority == acl.Priority })
	return acl.Allow && slices.ContainsFunc(by, func(other broker.ACL) bool {
		return other == acl || other.Allow && other.ACLType == acl.ACLType && covers(other, acl) &&
			(other.Priority > acl.Priority || other.Priority == acl.Priority && !denied)
	})
}

// covers reports whether a rule matches whatever another one of its type matches.
func covers(a, b broker.ACL) bool {
	return a.Topic == b.Topic || a.ACLType != "subscribeLiteral" && a.ACLType != "unsubscribeLiteral" && dynsec.FilterCovers(a.Topic, b.Topic)
}

// sameRights reports whether two roles decide alike.
func sameRights(a, b broker.Role) bool {
	return a.AllowWildcardSubs == b.AllowWildcardSubs && slices.Equal(orderedACLs(a.ACLs), orderedACLs(b.ACLs))
}

func orderedACLs(list []broker.ACL) []broker.ACL {
	return slices.SortedFunc(slices.Values(list), func(a, b broker.ACL) int {
		return cmp.Or(cmp.Compare(a.ACLType, b.ACLType), cmp.Compare(a.Topic, b.Topic))
	})
}

// allowsOnly reports whether a role denies nothing: without it a client has no right more.
func allowsOnly(r broker.Role) bool {
	return r.AllowWildcardSubs && !slices.ContainsFunc(r.ACLs, func(acl broker.ACL) bool { return !acl.Allow })
}

// sameRefs reports whether two lists have the same members, in whatever order.
func sameRefs[T comparable](a, b []T) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(v T) bool { return !slices.Contains(b, v) })
}

// common returns the members of both lists.
func common[T comparable](a, b []T) []T {
	both := []T{}
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}

// records returns what decides about a client.
func (a *access) records(username string) dynsec.Records {
	r := dynsec.Records{AnonymousGroup: a.anonymous, Groups: a.groups, Roles: a.roles, ReservedPrefixes: true}
	if c, ok := a.clients[username]; ok {
		r.Client = &c
	}
	for _, t := range defaultTypes {
		r.Defaults = append(r.Defaults, broker.DefaultACL{ACLType: t, Allow: a.defaults[t]})
	}
	return r
}

// managementRights are what the account of a connection needs to manage access control.
var managementRights = []broker.AccessCheck{
	{Action: broker.ActionPublish, Topic: dynsec.Topic},
	{Action: broker.ActionSubscribe, Topic: dynsec.Topic + "/response"},
	{Action: broker.ActionReceive, Topic: dynsec.Topic + "/response"},
}

// locksOut reports whether an account can manage the broker now, and could not with another
// state. The account "" is that of the clients without a username.
func (a *access) locksOut(w *access, username string) bool {
	for _, q := range managementRights {
		q.Username = username
		if dynsec.Explain(q, a.records(username)).Allowed && !dynsec.Explain(q, w.records(username)).Allowed {
			return true
		}
	}
	return false
}

// checkManager returns an error if the steps of the plan would take from the account with
// which the service manages the broker what the other steps need.
func (p *accessPlan) checkManager(username string) error {
	name := username
	if name == "" {
		name = "the clients without a username"
	}
	if p.have.locksOut(p.want, username) {
		return fmt.Errorf("%w: it takes the right to use the control topics from %s; give the connection of the broker another account first", ErrLockOut, name)
	}
	if p.have.locksOut(p.before, username) || p.have.locksOut(p.after, username) {
		return fmt.Errorf("%w: while its steps are made, %s cannot use the control topics, because the role or group that allows it changes too; apply a file first that gives a role for the control topics to that account alone", ErrLockOut, name)
	}
	return nil
}
