package dynsec

import (
	"fmt"
	"strings"

	"signalbox/broker"
)

// Records are the input of a decision about one client: its own record, those of the
// groups and roles that it or the anonymous group names, and the defaults. A name
// without a record is ignored.
type Records struct {
	Client         *broker.Client // nil if there is none with the name
	AnonymousGroup string         // "" for none
	Groups         map[string]broker.Group
	Roles          map[string]broker.Role
	Defaults       []broker.DefaultACL
	// ReservedPrefixes is true for Mosquitto, which reserves $SYS and $share as
	// prefixes of topics ($SYSTEM, $shared), not as their first level.
	ReservedPrefixes bool
}

// Explain returns the decision of [Rights.Allowed] for the same client, and the reason.
// It also denies what is refused before the rights are checked: a client that does not
// exist, is disabled or has another client id than the one it is bound to, and a
// publish to $SYS or $share, which no client may do.
func Explain(q broker.AccessCheck, r Records) broker.Verdict {
	ev, known := events[q.Action]
	v := broker.Verdict{ACLType: ev.defaultName()}
	switch {
	case !known || !ev.accepts(q.Topic):
		return denied(v, broker.DecidedByTopic, "this is not what a client can %s: %q", q.Action, q.Topic)
	case ev == PublishSend && r.reserved(q.Topic):
		return denied(v, broker.DecidedBySystem, "no client may publish to topics that begin with $SYS or $share")
	case q.Username == "":
		return r.decide(v, ev, q, r.anonymousRoles())
	case r.Client == nil:
		return denied(v, broker.DecidedByUnknown, "there is no client %q", q.Username)
	case r.Client.Disabled:
		return denied(v, broker.DecidedByDisabled, "the client is disabled and cannot connect")
	case r.Client.ClientID == "" || q.ClientID == r.Client.ClientID:
	case q.ClientID == "":
		q.ClientID = r.Client.ClientID
	default:
		return denied(v, broker.DecidedByClientID, "the client can connect with the client id %q only", r.Client.ClientID)
	}
	return r.decide(v, ev, q, r.clientRoles())
}

var events = map[broker.Action]Event{
	broker.ActionPublish: PublishSend, broker.ActionReceive: PublishReceive,
	broker.ActionSubscribe: Subscribe, broker.ActionUnsubscribe: Unsubscribe,
}

func (ev Event) defaultName() string {
	return [...]string{defaultSend, defaultReceive, defaultSubscribe, defaultUnsubscribe}[ev]
}

// reserved reports whether no client may publish to a topic.
func (r Records) reserved(topic string) bool {
	if r.ReservedPrefixes {
		return strings.HasPrefix(topic, "$SYS") || strings.HasPrefix(topic, "$share")
	}
	level, _, _ := strings.Cut(topic, "/")
	return level == "$SYS" || level == "$share"
}

func denied(v broker.Verdict, source broker.DecidedBy, reason string, args ...any) broker.Verdict {
	v.Allowed, v.Source, v.Reason = false, source, fmt.Sprintf(reason, args...)
	return v
}

// heldRole is a role and how the client has it.
type heldRole struct {
	role  broker.RoleRef
	via   broker.Via
	group broker.GroupRef
}

// clientRoles returns the client's roles in order of evaluation.
func (r *Records) clientRoles() (roles []heldRole) {
	for _, ref := range orderRoles(r.Client.Roles) {
		roles = append(roles, heldRole{role: ref, via: broker.ViaClient})
	}
	for _, group := range orderGroups(r.Client.Groups) {
		roles = r.appendGroup(roles, group, broker.ViaGroup)
	}
	return roles
}

func (r *Records) anonymousRoles() []heldRole {
	return r.appendGroup(nil, broker.GroupRef{GroupName: r.AnonymousGroup, Priority: broker.NoPriority}, broker.ViaAnonymous)
}

func (r *Records) appendGroup(roles []heldRole, group broker.GroupRef, via broker.Via) []heldRole {
	for _, ref := range orderRoles(r.Groups[group.GroupName].Roles) {
		roles = append(roles, heldRole{role: ref, via: via, group: group})
	}
	return roles
}

// decide evaluates one role after the other, and then the defaults.
func (r *Records) decide(v broker.Verdict, ev Event, of broker.AccessCheck, roles []heldRole) broker.Verdict {
	q := query{username: of.Username, clientID: of.ClientID, topic: of.Topic}
	for _, h := range roles {
		role, ok := r.Roles[h.role.RoleName]
		if !ok {
			continue
		}
		if d := compileRules(role).decide(ev, &q); d != undecided {
			return h.explain(v, ev, of.Topic, role, d)
		}
	}
	return r.byDefault(v, of.Topic)
}

func (r *Records) byDefault(v broker.Verdict, topic string) broker.Verdict {
	v.Source = broker.DecidedByDefault
	for _, d := range r.Defaults {
		v.Allowed = v.Allowed || d.ACLType == v.ACLType && d.Allow
	}
	switch {
	case v.Allowed && control(topic):
		return denied(v, broker.DecidedByControl, "no ACL matches, and what begins with $CONTROL is never open by default")
	case v.Allowed:
		v.Reason = "no ACL matches, and the default for " + v.ACLType + " allows it"
	default:
		v.Reason = "no ACL matches, and the default for " + v.ACLType + " denies it"
	}
	return v
}

// explain adds the role's ACL that decided to the verdict.
func (h heldRole) explain(v broker.Verdict, ev Event, topic string, role broker.Role, d verdict) broker.Verdict {
	h.name(&v)
	if ev == Subscribe && !role.AllowWildcardSubs && hasWildcard(topic) {
		return denied(v, broker.DecidedByWildcards, "%s allows no subscription with a wildcard", h)
	}
	acl := inOrder(role.ACLs)[d.place()]
	v.ACL, v.Source, v.Allowed = &acl, broker.DecidedByACL, d.allow()
	verb := "denies"
	switch {
	case v.Allowed:
		verb = "allows"
	case acl.Allow:
		return denied(v, broker.DecidedByACL, "the ACL %s %q of %s is no topic filter, and such an ACL denies", acl.ACLType, acl.Topic, h)
	}
	v.Reason = fmt.Sprintf("the ACL %s %q of %s %s it", acl.ACLType, acl.Topic, h, verb)
	return v
}

// name adds the role to the verdict, and how the client has it.
func (h heldRole) name(v *broker.Verdict) {
	v.RoleName, v.Via = h.role.RoleName, h.via
	v.RolePriority = shown(h.role.Priority)
	v.GroupName = h.group.GroupName
	if h.via == broker.ViaGroup {
		v.GroupPriority = shown(h.group.Priority)
	}
}

// shown omits a priority that was not set.
func shown(p broker.Priority) *broker.Priority {
	if p == broker.NoPriority {
		return nil
	}
	return &p
}

// String returns the role as a part of a sentence.
func (h heldRole) String() string {
	switch h.via {
	case broker.ViaGroup:
		return fmt.Sprintf("the role %q, held through the group %q,", h.role.RoleName, h.group.GroupName)
	case broker.ViaAnonymous:
		return fmt.Sprintf("the role %q, held through the anonymous group %q,", h.role.RoleName, h.group.GroupName)
	}
	return fmt.Sprintf("the role %q", h.role.RoleName)
}

// Explain returns what a client may do in this state, and why.
func (s *State) Explain(q broker.AccessCheck) broker.Verdict {
	r := Records{AnonymousGroup: s.anonymous, Defaults: s.defaults.acls(),
		Groups: map[string]broker.Group{}, Roles: map[string]broker.Role{}}
	groups := []broker.GroupRef{{GroupName: s.anonymous}}
	if c, ok := s.Client(q.Username); ok {
		r.Client, groups = &c, c.Groups
		s.collectRoles(&r, c.Roles)
	}
	for _, ref := range groups {
		if g, ok := s.groups.Get(ref.GroupName); ok { // without its members, which may be many
			r.Groups[ref.GroupName] = broker.Group{GroupName: ref.GroupName, Roles: g.Roles}
			s.collectRoles(&r, g.Roles)
		}
	}
	return Explain(q, r)
}

func (s *State) collectRoles(r *Records, refs []broker.RoleRef) {
	for _, ref := range refs {
		if role, ok := s.Role(ref.RoleName); ok {
			r.Roles[ref.RoleName] = role
		}
	}
}
