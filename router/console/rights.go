package console

import "slices"

// accessEvent is an action of a client, with the types of rules about it in order of their
// evaluation, and the type of the default access.
type accessEvent struct {
	action      string
	types       []string
	defaultType string
}

// accessEvents are the actions as in the operation checkAccess.
var accessEvents = []accessEvent{
	{"publish", []string{"publishClientSend"}, "publishClientSend"},
	{"receive", []string{"publishClientReceive"}, "publishClientReceive"},
	{"subscribe", []string{"subscribeLiteral", "subscribePattern"}, "subscribe"},
	{"unsubscribe", []string{"unsubscribeLiteral", "unsubscribePattern"}, "unsubscribe"},
}

// ruleTypes are the types of rules in the order in which a role has them.
var ruleTypes = []string{"publishClientSend", "publishClientReceive", "subscribeLiteral", "subscribePattern",
	"unsubscribeLiteral", "unsubscribePattern"}

// accessEventOf returns the event of an action.
func accessEventOf(action string) (accessEvent, bool) {
	i := slices.IndexFunc(accessEvents, func(e accessEvent) bool { return e.action == action })
	if i < 0 {
		return accessEvent{}, false
	}
	return accessEvents[i], true
}

// heldRole is a role of a client, and the group through which the client has it.
type heldRole struct {
	accessRole
	roleRef roleRef
	group   *groupRef // nil if the client has the role itself
}

// right is a rule that applies to a client, with the role and the group through which
// the client has it.
type right struct {
	Action string
	accessRule
	Role          string
	RolePriority  int
	Group         string // "" if the client has the role itself
	GroupPriority int
	NoWildcards   bool // no rule: the role allows no subscription with a wildcard
}

// rightsOf returns the rules about an event in order of their evaluation.
func (e accessEvent) rightsOf(held []heldRole) (rights []right) {
	for _, h := range held {
		r := right{Action: e.action, Role: h.Name, RolePriority: h.roleRef.Rank()}
		if h.group != nil {
			r.Group, r.GroupPriority = h.group.Name, h.group.Rank()
		}
		if e.action == "subscribe" && !h.AllowWildcardSubs {
			refusal := r
			refusal.NoWildcards = true
			rights = append(rights, refusal)
		}
		for _, t := range e.types {
			for _, rule := range h.Rules {
				if rule.Type == t {
					r.accessRule = rule
					rights = append(rights, r)
				}
			}
		}
	}
	return rights
}

// heldRoles returns the roles of a client in order of their evaluation: its own, and then
// those of each of its groups.
func (q *request) heldRoles(c accessClient) ([]heldRole, error) {
	names := make([]string, len(c.Groups))
	for i, g := range c.Groups {
		names[i] = g.Name
	}
	groups, err := findAll[accessGroup](q, groupsByName, names)
	if err != nil {
		return nil, err
	}
	held := orderHeld(c, groups)
	roles, err := findAll[accessRole](q, rolesByName, namesOf(held))
	if err != nil {
		return nil, err
	}
	byName := map[string]accessRole{}
	for _, r := range roles {
		byName[r.Name] = r
	}
	for i := range held {
		held[i].accessRole = byName[held[i].roleRef.Name]
	}
	return slices.DeleteFunc(held, func(h heldRole) bool { return h.Name == "" }), nil
}

// orderHeld returns the names of the roles of a client in order; the API has ordered the
// roles of the client and of each group, and the groups of the client.
func orderHeld(c accessClient, groups []accessGroup) (held []heldRole) {
	for _, r := range c.Roles {
		held = append(held, heldRole{roleRef: r})
	}
	for _, ref := range c.Groups {
		i := slices.IndexFunc(groups, func(g accessGroup) bool { return g.Name == ref.Name })
		if i < 0 {
			continue // deleted meanwhile
		}
		for _, r := range groups[i].Roles {
			held = append(held, heldRole{roleRef: r, group: &ref})
		}
	}
	return held
}

// namesOf returns the name of each role once.
func namesOf(held []heldRole) (names []string) {
	for _, h := range held {
		if !slices.Contains(names, h.roleRef.Name) {
			names = append(names, h.roleRef.Name)
		}
	}
	return names
}
