package site

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"signalbox/broker"
)

// phase orders the steps of a broker. At no time does a step of a phase allow what neither
// the state before the first step nor the one after the last allows.
type phase int

const (
	connections phase = iota
	revoke            // delete and disable clients
	tightenRoles
	tightenGroups
	moveClients // each in one step, and groups that no other step touches
	loosenGroups
	loosenRoles
	addClients
	deleteGroups
	deleteRoles
	leaveClusters
	messageFlow // streams and bridges; connections are deleted
	joinClusters
	phases
)

// lockRole denies everything. A group has it, before its other roles, while its roles and its
// members change together, if the roles before and after have no safe common part.
const lockRole = "signalbox-apply-lock"

// lockPriority is the highest priority that brokers accept: the role comes first.
const lockPriority = 100000

// accessPlan makes the steps from one state of access control to another.
type accessPlan struct {
	api        API
	path       string
	secrets    Secrets
	have, want *access
	declared   map[string]Client
	steps      []Step

	// The states before and after the clients change. Rights only shrink up to the first,
	// and only grow from the second.
	before, after *access
}

// add adds a step that calls one operation.
func (p *accessPlan) add(at phase, action Action, kind, name string, changes []string, method, path string, query url.Values, body any) {
	p.steps = append(p.steps, Step{Action: action, Kind: kind, Name: name, Changes: changes, phase: at,
		do: func(ctx context.Context) error { return p.api.Call(ctx, method, p.path+path, query, body, nil) }})
}

// reason states what the last step is for: another one changes the same object.
func (p *accessPlan) reason(text string) { p.steps[len(p.steps)-1].Reason = text }

func (p *accessPlan) plan() []Step {
	p.before, p.after = p.have.clone(), p.want.clone()
	p.roles()
	p.groups()
	p.clients()
	p.defaults()
	if p.want.anonymous != "" && p.have.anonymous != p.want.anonymous {
		p.add(moveClients, Update, "anonymous group", p.want.anonymous, nil, "PUT", "/groups/anonymous", nil, map[string]string{"groupname": p.want.anonymous})
	}
	return p.steps
}

// defaults changes the default access: first what becomes denied, at last what becomes
// allowed.
func (p *accessPlan) defaults() {
	between := maps.Clone(p.want.defaults)
	for t, allow := range p.have.defaults {
		between[t] = between[t] && allow
	}
	p.before.defaults, p.after.defaults = between, between
	for _, step := range []struct {
		at        phase
		old, next map[string]bool
	}{{tightenRoles, p.have.defaults, between}, {loosenRoles, between, p.want.defaults}} {
		var acls []broker.DefaultACL
		var changes []string
		for _, t := range defaultTypes {
			acls = append(acls, broker.DefaultACL{ACLType: t, Allow: step.next[t]})
			if step.old[t] != step.next[t] {
				changes = append(changes, t)
			}
		}
		if len(changes) > 0 {
			p.add(step.at, Update, "default access", "of the broker", changes, "PUT", "/acldefault", nil, acls)
		}
	}
}

func (p *accessPlan) roles() {
	for _, name := range sorted(p.want.roles) {
		want := p.want.roles[name]
		have, exists := p.have.roles[name]
		if !exists {
			p.add(tightenRoles, Create, "role", name, nil, "POST", "/roles", nil, want)
			continue
		}
		middle := between(have, want)
		p.before.roles[name], p.after.roles[name] = middle, middle
		if !sameRights(have, middle) && !sameRights(middle, want) {
			p.role(tightenRoles, have, middle)
			p.reason("what it withdraws")
			p.role(loosenRoles, middle, want)
			p.reason("what it grants")
			continue
		}
		at := tightenRoles
		if sameRights(have, middle) {
			at = loosenRoles
		}
		p.role(at, have, want)
	}
	for _, name := range sorted(p.have.roles) {
		if !p.want.hasRole(name) {
			p.add(deleteRoles, Delete, "role", name, nil, "DELETE", "/roles", url.Values{"rolename": {name}}, nil)
		}
	}
}

// role changes a role, if it differs.
func (p *accessPlan) role(at phase, have, want broker.Role) {
	b := newBody("rolename", want.RoleName)
	setTexts(b, want.TextName, have.TextName, want.TextDescription, have.TextDescription)
	set(b, "allowwildcardsubs", &want.AllowWildcardSubs, have.AllowWildcardSubs)
	if !slices.Equal(orderedACLs(have.ACLs), orderedACLs(want.ACLs)) {
		b.fields["acls"], b.changes = nonNil(want.ACLs), append(b.changes, "acls")
	}
	if len(b.changes) > 0 {
		p.add(at, Update, "role", want.RoleName, b.changes, "PUT", "/roles", nil, b.fields)
	}
}

func setTexts(b *body, wantName, haveName, wantDescription, haveDescription *string) {
	set(b, "textname", wantName, value(haveName))
	set(b, "textdescription", wantDescription, value(haveDescription))
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// groups changes the roles of groups. A change of a group is one step, unless a member
// changes as well, or another group of one. A group that is deleted has no members any
// more: their records no longer have it. The anonymous group, whose members have none,
// loses its roles before.
func (p *accessPlan) groups() {
	entangled := p.entangled()
	for _, name := range sorted(p.want.groups) {
		want := p.want.groups[name]
		have, exists := p.have.groups[name]
		switch {
		case !exists:
			p.add(tightenGroups, Create, "group", name, nil, "POST", "/groups", nil, groupBody(want))
		case !entangled[name]:
			p.group(moveClients, have, want)
		default:
			p.split(have, want)
		}
	}
	for _, name := range sorted(p.have.groups) {
		if _, stays := p.want.groups[name]; !stays {
			if have := p.have.groups[name]; name == p.have.anonymous {
				p.split(have, broker.Group{GroupName: name, TextName: have.TextName, TextDescription: have.TextDescription})
			}
			p.add(deleteGroups, Delete, "group", name, nil, "DELETE", "/groups", url.Values{"groupname": {name}}, nil)
		}
	}
}

// split changes a group before and after its members: to what both states have, behind a
// role that denies everything if a role that is added or removed denies something. What
// both states have stays, because a file that does not declare it must find it after an
// interruption.
func (p *accessPlan) split(have, want broker.Group) {
	middle := want
	middle.Roles = common(have.Roles, want.Roles)
	for _, ref := range slices.Concat(have.Roles, want.Roles) {
		if !slices.Contains(middle.Roles, ref) && !allowsOnly(p.have.roles[ref.RoleName]) ||
			!slices.Contains(middle.Roles, ref) && p.want.hasRole(ref.RoleName) && !allowsOnly(p.want.roles[ref.RoleName]) {
			p.lock()
			middle.Roles = slices.DeleteFunc(middle.Roles, func(r broker.RoleRef) bool { return r.Priority >= lockPriority })
			middle.Roles = append(middle.Roles, broker.RoleRef{RoleName: lockRole, Priority: lockPriority})
			break
		}
	}
	p.before.groups[have.GroupName] = middle
	if hasKey(p.after.groups, have.GroupName) {
		p.after.groups[have.GroupName] = middle
	}
	p.group(tightenGroups, have, middle)
	p.group(loosenGroups, middle, want)
}

// group changes a group, if it differs.
func (p *accessPlan) group(at phase, have, want broker.Group) {
	b := newBody("groupname", want.GroupName)
	setTexts(b, want.TextName, have.TextName, want.TextDescription, have.TextDescription)
	if !sameRefs(have.Roles, want.Roles) {
		b.fields["roles"], b.changes = nonNil(want.Roles), append(b.changes, "roles")
	}
	if len(b.changes) > 0 {
		p.add(at, Update, "group", want.GroupName, b.changes, "PUT", "/groups", nil, b.fields)
	}
}

func groupBody(g broker.Group) map[string]any {
	return map[string]any{"groupname": g.GroupName, "textname": g.TextName, "textdescription": g.TextDescription, "roles": nonNil(g.Roles)}
}

// lock creates the role that denies everything, and deletes it at the end. One of an
// interrupted run is deleted as every role that is not wanted.
func (p *accessPlan) lock() {
	if p.before.hasRole(lockRole) && p.after.hasRole(lockRole) {
		return
	}
	role := broker.Role{RoleName: lockRole, AllowWildcardSubs: !p.deniesWildcards()}
	for _, t := range []broker.ACLType{"publishClientSend", "publishClientReceive", "subscribePattern", "unsubscribePattern"} {
		for _, topic := range p.everyTopic() {
			role.ACLs = append(role.ACLs, broker.ACL{ACLType: t, Topic: topic})
		}
	}
	p.before.roles[lockRole], p.after.roles[lockRole] = role, role
	if have, exists := p.have.roles[lockRole]; exists {
		have.TextName, have.TextDescription = nil, nil
		p.role(tightenRoles, have, role)
		return
	}
	p.add(tightenRoles, Create, "role", lockRole, nil, "POST", "/roles", nil, role)
	p.add(deleteRoles, Delete, "role", lockRole, nil, "DELETE", "/roles", url.Values{"rolename": {lockRole}}, nil)
}

// deniesWildcards reports whether a role denies wildcards of subscriptions. Mosquitto 2.0 has
// no such roles, and refuses to create one.
func (p *accessPlan) deniesWildcards() bool {
	for _, roles := range []map[string]broker.Role{p.have.roles, p.want.roles} {
		for _, r := range roles {
			if !r.AllowWildcardSubs {
				return true
			}
		}
	}
	return false
}

// everyTopic returns filters that match all topics that a role mentions: "#" does not match
// those that begin with $ [MQTT-4.7.2-1].
func (p *accessPlan) everyTopic() []string {
	filters := map[string]bool{"#": true, "$SYS/#": true, "$CONTROL/#": true}
	for _, roles := range []map[string]broker.Role{p.have.roles, p.want.roles} {
		for _, r := range roles {
			for _, acl := range r.ACLs {
				if first, _, _ := strings.Cut(acl.Topic, "/"); strings.HasPrefix(first, "$") {
					filters[first+"/#"] = true
				}
			}
		}
	}
	return sorted(filters)
}

// entangled returns the groups that change together with a member, or with another group
// of a member.
func (p *accessPlan) entangled() map[string]bool {
	changed := map[string]bool{}
	for name, have := range p.have.groups {
		want, stays := p.want.groups[name]
		changed[name] = stays && !sameRefs(have.Roles, want.Roles)
	}
	entangled := map[string]bool{}
	for username, have := range p.have.clients {
		want, stays := p.want.clients[username]
		if !stays {
			continue // it is deleted before
		}
		var of []string
		for _, ref := range slices.Concat(have.Groups, want.Groups) {
			if changed[ref.GroupName] && !slices.Contains(of, ref.GroupName) {
				of = append(of, ref.GroupName)
			}
		}
		if len(of) > 1 || moves(have, want) {
			for _, name := range of {
				entangled[name] = true
			}
		}
	}
	if p.have.anonymous != p.want.anonymous {
		entangled[p.have.anonymous], entangled[p.want.anonymous] = true, true
	}
	return entangled
}

// moves reports whether the roles or groups of a client change.
func moves(have, want broker.Client) bool {
	return !sameRefs(have.Roles, want.Roles) || !sameRefs(have.Groups, want.Groups)
}
