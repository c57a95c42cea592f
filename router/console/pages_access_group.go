package console

import (
	"errors"
	"slices"
)

// groupView is one group with a page of its members.
type groupView struct {
	accessView
	Group   accessGroup
	Members []accessClient
	Search  string
	Paging  paging
	AddRole form
	Add     form           // adds members
	Roles   part[[]string] // names that the form suggests

	anonymous part[anonymousGroup]
}

// IsAnonymous reports whether the group is that of clients without a username, which cannot be
// deleted.
func (v *groupView) IsAnonymous() bool {
	return v.Group.Name != "" && v.anonymous.Value.Name == v.Group.Name
}

func viewGroup(q *request) (view, error) {
	g, err := q.accessGroup()
	if err != nil {
		if m := q.missing("dynamic-security", q.asAPIError(err)); m != nil {
			return &groupView{accessView: accessView{Missing: m}}, nil
		}
		return nil, err
	}
	v := &groupView{Group: g, Search: q.query.Get("search"), AddRole: q.membershipForm("add_role", "rolename", "role-names"), Add: q.membersForm()}
	v.Title = q.t("group.of", g.Name)
	offset, size := q.window()
	names, total := g.search(v.Search, offset, size)
	v.Paging = q.paging(total)
	var p parts
	load(&p, q, &v.anonymous, "getAnonymousGroup", nil)
	if q.role() >= editor {
		load(&p, q, &v.Roles, "listRoles", suggestions())
	}
	p.run(func() { v.Members, err = findAll[accessClient](q, clientsByName, names) })
	p.wait()
	return v, err
}

// Rank returns the priority of the group for a member.
func (v *groupView) Rank(c accessClient) int {
	i := slices.IndexFunc(c.Groups, func(g groupRef) bool { return g.Name == v.Group.Name })
	if i < 0 {
		return defaultPriority
	}
	return c.Groups[i].Rank()
}

// maxAdded bounds the members that one form adds.
const maxAdded = 100

func (q *request) membersForm() form {
	return q.newFormOf("add_members", "group.add.submit",
		field{Name: "usernames", Kind: kindLines, Label: q.t("group.add"), Hint: q.t("group.add.hint", maxAdded), Required: true},
		field{Name: "priority", Kind: kindNumber, Label: q.t("access.priority"), Hint: q.t("group.priority.hint"), Value: "-1", Min: "-100000", Max: "100000"})
}

// addGroupMembers adds the group to each of the posted clients. Unlike a change of the group,
// this disconnects only the clients that are added.
func addGroupMembers(q *request) (string, error) {
	body := q.membersForm().body(q.http.PostForm)
	names, _ := body["usernames"].([]string)
	if len(names) == 0 || len(names) > maxAdded {
		return "", q.invalid("usernames", q.t("group.add.bound", maxAdded))
	}
	g, err := q.accessGroup()
	if err != nil {
		return "", err
	}
	entry := map[string]any{"groupname": g.Name}
	if priority, ok := body["priority"]; ok {
		entry["priority"] = priority
	}
	for i, name := range names {
		if err := q.addGroupMember(name, g.Name, entry); err != nil {
			return "", q.stoppedAt(memberError(err), name, i)
		}
	}
	message := names[0]
	if len(names) > 1 {
		message = q.t("group.added", len(names))
	}
	return done(q.inBroker("group", "groupname", g.Name), "group_members_added", message), nil
}

func (q *request) addGroupMember(username, group string, entry map[string]any) error {
	c, err := findOne[accessClient](q, clientsByName, username)
	if err != nil {
		return err
	}
	return q.do("modifyClient", nil, map[string]any{"username": username, "groups": withEntries(c.withoutGroup(group), entry)})
}

// stoppedAt adds to the error of one of several changes how many were made before it.
func (q *request) stoppedAt(err error, name string, before int) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok || before == 0 {
		return err
	}
	stopped := *e
	stopped.Code, stopped.Message = e.Code, q.t("group.add.stopped", before, show(name), e.Message)
	return &stopped
}

func removeGroupMember(q *request) (string, error) {
	group, name := q.query.Get("groupname"), q.query.Get("username")
	c, err := findOne[accessClient](q, clientsByName, name)
	if err != nil {
		return "", err
	}
	if err := q.do("modifyClient", nil, map[string]any{"username": name, "groups": withEntries(c.withoutGroup(group))}); err != nil {
		return "", err
	}
	return done(q.inBroker("group", "groupname", group), "group_member_removed", name), nil
}
