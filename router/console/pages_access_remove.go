package console

import (
	"slices"
	"strings"
)

// viewClientRemove asks whether the client of the query loses the role or the group that the
// query names: the change closes its connections.
func viewClientRemove(q *request) (view, error) {
	c, err := q.client()
	if err != nil {
		return nil, err
	}
	back := q.inBroker("client", "username", c.Username)
	name := q.query.Get("rolename")
	if name == "" {
		return q.leaveView(c, q.query.Get("groupname"), "remove_group", back)
	}
	if !hasRole(c.Roles, name) {
		return nil, errRedirect{back}
	}
	v := q.removalView("remove_role", back, q.t("remove.role"))
	v.Title = q.t("client-remove.role.of", name, c.Username)
	v.Warnings = append(q.controlWarning(name), q.closes(c))
	return v, nil
}

// viewGroupRemove asks whether the group of the query loses the role, or the client, that the
// query names.
func viewGroupRemove(q *request) (view, error) {
	g, err := q.accessGroup()
	if err != nil {
		return nil, err
	}
	back := q.inBroker("group", "groupname", g.Name)
	if name := q.query.Get("rolename"); name != "" {
		if !hasRole(g.Roles, name) {
			return nil, errRedirect{back}
		}
		return q.groupRoleView(g, name, back), nil
	}
	c, err := findOne[accessClient](q, clientsByName, q.query.Get("username"))
	if err != nil {
		return nil, err
	}
	return q.leaveView(c, g.Name, "remove_member", back)
}

func hasRole(roles []roleRef, name string) bool {
	return slices.ContainsFunc(roles, func(r roleRef) bool { return r.Name == name })
}

// removalView returns the page that asks before something is taken from a client or a group.
func (q *request) removalView(do, back string, intro ...string) *formView {
	return &formView{Intro: intro, Form: q.deletion(do, "access.remove", q.root+"/"+back)}
}

// leaveView asks whether a client leaves a group. One that is no member any more, as after a
// second click, has nothing to lose.
func (q *request) leaveView(c accessClient, group, do, back string) (view, error) {
	if len(c.withoutGroup(group)) == len(c.Groups) {
		return nil, errRedirect{back}
	}
	g, err := findOne[accessGroup](q, groupsByName, group)
	if err != nil {
		return nil, err
	}
	v := q.removalView(do, back, q.t("remove.group"))
	v.Title = q.t("group-remove.member.of", c.Username, group)
	if len(g.Roles) > 0 {
		v.Facts = []fact{of(q.t("access.roles"), listed(q, g.Roles, func(r roleRef) string { return r.Name }))}
	}
	v.Warnings = []string{q.closes(c)}
	return v, nil
}

// groupRoleView asks whether a group loses a role, and names the members to which it matters.
func (q *request) groupRoleView(g accessGroup, role, back string) *formView {
	v := q.removalView("remove_role", back)
	v.Title = q.t("group-remove.role.of", role, g.Name)
	v.Warnings = q.controlWarning(role)
	if len(g.Clients) == 0 {
		v.Intro = []string{q.t("group-delete.no_members")}
	} else {
		v.Intro = []string{q.t("remove.group_role", len(g.Clients))}
		v.Facts = []fact{of(q.t("access.members"), listed(q, g.Clients, func(m groupMember) string { return m.Username }))}
		v.Warnings = append(v.Warnings, q.t("group.role.closes"))
	}
	var anonymous anonymousGroup
	if q.get("getAnonymousGroup", nil, &anonymous) == nil && anonymous.Name == g.Name {
		v.Warnings = append(v.Warnings, q.t("groups.anonymous.hint"))
	}
	return v
}

// closes returns which connections a change of the client closes.
func (q *request) closes(c accessClient) string {
	if n := len(c.Connections); n > 0 {
		return q.t("client.closes", n)
	}
	return q.t("client.closes.unknown") // not every broker reports them
}

// controlWarning returns the warning about a role with which the broker is managed.
func (q *request) controlWarning(role string) []string {
	if r, err := findOne[accessRole](q, rolesByName, role); err == nil && r.Manages() {
		return []string{q.t("role-delete.control")}
	}
	return nil
}

// listed returns the names of a list as text, at most maxAffected of them.
func listed[T any](q *request, list []T, name func(T) string) string {
	var names []string
	for _, e := range list[:min(len(list), maxAffected)] {
		names = append(names, name(e))
	}
	text := strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		text += " " + q.t("access.more", more)
	}
	return text
}
