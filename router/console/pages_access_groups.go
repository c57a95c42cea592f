package console

import (
	"net/url"
	"slices"
	"strings"
)

// groupPages are those of the groups of clients.
func groupPages() []*page {
	const help = "access-control"
	return []*page{
		{path: brokerPath + "groups", name: "groups", group: "groups", role: viewer, change: editor, help: help,
			calls: []string{"listGroups", "getAnonymousGroup", "setAnonymousGroup"}, view: viewGroups, fragments: []string{"list"},
			actions: map[string]action{"anonymous": setAnonymousGroup}},
		{path: brokerPath + "groups/new", name: "group-new", group: "groups", role: editor, help: help,
			calls: []string{"createGroup", "listRoles"}, view: viewGroupNew,
			actions: map[string]action{"create": createGroup}},
		{path: brokerPath + "group", name: "group", group: "groups", role: viewer, change: editor, help: help,
			calls: []string{"listGroups", "getAnonymousGroup", "listClients", "listRoles", "modifyGroup", "modifyClient"}, view: viewGroup, fragments: []string{"members"},
			actions: map[string]action{"add_role": addGroupRole, "add_members": addGroupMembers}},
		{path: brokerPath + "groups/remove", name: "group-remove", template: "form", group: "groups", role: editor, help: help,
			calls: []string{"listGroups", "getAnonymousGroup", "listClients", "listRoles", "modifyGroup", "modifyClient"}, view: viewGroupRemove,
			actions: map[string]action{"remove_role": removeGroupRole, "remove_member": removeGroupMember}},
		{path: brokerPath + "groups/edit", name: "group-edit", group: "groups", role: editor, help: help,
			calls: []string{"listGroups", "modifyGroup"}, view: viewGroupEdit,
			actions: map[string]action{"edit": editGroup}},
		{path: brokerPath + "groups/delete", name: "group-delete", group: "groups", role: editor, help: help,
			calls: []string{"listGroups", "getAnonymousGroup", "listClients", "deleteGroup"}, view: viewGroupDelete,
			actions: map[string]action{"delete": deleteGroup}},
	}
}

// groupsView is the list of groups.
type groupsView struct {
	accessView
	Groups    part[[]accessGroup]
	Names     part[[]string]
	Anonymous part[anonymousGroup]
	Form      form
	Filter    listFilter
	Paging    paging
}

// anonymousGroup is the group of the clients without a username, "" for none.
type anonymousGroup struct {
	Name string `json:"groupname"`
}

func viewGroups(q *request) (view, error) {
	v := &groupsView{Filter: q.listFilter("groupname", "textname", "textdescription", "username", "rolename")}
	var g parts
	load(&g, q, &v.Groups, "listGroups", q.filtered())
	load(&g, q, &v.Anonymous, "getAnonymousGroup", nil)
	if q.role() >= editor {
		load(&g, q, &v.Names, "listGroups", suggestions())
	}
	g.wait()
	v.Missing, v.Paging = q.missing("dynamic-security", v.Groups.Err), q.pagingOf("listGroups", v.Groups.Total)
	v.Form = q.anonymousForm(v.Anonymous.Value.Name)
	return v, nil
}

func (q *request) anonymousForm(name string) form {
	return q.newFormOf("anonymous", "access.save", field{Name: "groupname", Kind: kindText, Label: q.t("access.groupname"),
		Hint: q.t("groups.anonymous.hint"), Value: name, Suggest: "group-names"})
}

func setAnonymousGroup(q *request) (string, error) {
	name := q.posted("groupname")
	if err := q.do("setAnonymousGroup", nil, map[string]any{"groupname": name}); err != nil {
		return "", err
	}
	return done(q.inBroker("groups"), "group_anonymous", name), nil
}

// groupFormView is a page with one form about a group.
type groupFormView struct {
	accessView
	Form    form
	Group   *accessGroup
	Members part[[]accessClient]
	Roles   part[[]string] // names that the form suggests

	IsAnonymous bool // the group is that of clients without a username, which cannot be deleted
}

func viewGroupNew(q *request) (view, error) {
	v := &groupFormView{Form: q.groupForm(accessGroup{}, true)}
	v.Form.Cancel = q.linkInBroker("groups")
	var g parts
	load(&g, q, &v.Roles, "listRoles", suggestions())
	g.wait()
	v.Missing = q.missing("dynamic-security", v.Roles.Err)
	return v, nil
}

func (q *request) groupForm(g accessGroup, isNew bool) form {
	texts := []field{
		{Name: "textname", Kind: kindText, Label: q.t("access.textname"), Value: g.TextName},
		{Name: "textdescription", Kind: kindLong, Label: q.t("access.textdescription"), Value: g.TextDescription},
	}
	if !isNew {
		return q.newFormOf("edit", "access.save", texts...)
	}
	fields := append([]field{{Name: "groupname", Kind: kindText, Label: q.t("access.groupname"), Hint: q.t("access.name.hint"), Required: true}}, texts...)
	return q.newFormOf("create", "group.create", append(fields,
		field{Name: "roles/0/rolename", Kind: kindText, Label: q.t("client.role"), Hint: q.t("group.role.hint"), Suggest: "role-names"})...)
}

func createGroup(q *request) (string, error) {
	if err := q.do("createGroup", nil, q.groupForm(accessGroup{}, true).body(q.http.PostForm)); err != nil {
		return "", err
	}
	name := q.posted("groupname")
	return done(q.inBroker("group", "groupname", name), "group_created", name), nil
}

// accessGroup returns the group that the page's query names.
func (q *request) accessGroup() (accessGroup, error) {
	return findOne[accessGroup](q, groupsByName, q.query.Get("groupname"))
}

func viewGroupEdit(q *request) (view, error) {
	g, err := q.accessGroup()
	if err != nil {
		return nil, err
	}
	v := &groupFormView{Form: q.groupForm(g, false), Group: &g}
	v.Title, v.Form.Cancel = q.t("group-edit.of", g.Name), q.linkInBroker("group", "groupname", g.Name)
	return v, nil
}

func editGroup(q *request) (string, error) {
	body := q.groupForm(accessGroup{}, false).body(q.http.PostForm, "textname", "textdescription")
	return q.modifyGroup(body, "group_changed")
}

// modifyGroup changes the group of the query, and returns to its page.
func (q *request) modifyGroup(body map[string]any, message string) (string, error) {
	name := q.query.Get("groupname")
	body["groupname"] = name
	if err := q.do("modifyGroup", nil, body); err != nil {
		return "", err
	}
	return done(q.inBroker("group", "groupname", name), message, name), nil
}

// maxAffected bounds the names of those that a deletion affects.
const maxAffected = 20

func viewGroupDelete(q *request) (view, error) {
	g, err := q.accessGroup()
	if err != nil {
		return nil, err
	}
	v := &groupFormView{Form: q.newFormOf("delete", "group.delete"), Group: &g}
	v.Title, v.Form.Danger, v.Form.Cancel = q.t("group-delete.of", g.Name), true, q.linkInBroker("group", "groupname", g.Name)
	var p parts
	var anonymous part[anonymousGroup]
	load(&p, q, &anonymous, "getAnonymousGroup", nil)
	load(&p, q, &v.Members, "listClients", objectList{"listClients", "groupname", ""}.equalTo(g.Name, maxAffected))
	p.wait()
	v.IsAnonymous = g.Name != "" && anonymous.Value.Name == g.Name
	return v, nil
}

func deleteGroup(q *request) (string, error) {
	name := q.query.Get("groupname")
	if err := q.do("deleteGroup", url.Values{"groupname": {name}}, nil); err != nil {
		return "", err
	}
	return done(q.inBroker("groups"), "group_deleted", name), nil
}

func addGroupRole(q *request) (string, error) {
	body := q.membershipForm("add_role", "rolename", "").body(q.http.PostForm)
	g, err := q.accessGroup()
	if err != nil {
		return "", err
	}
	next, err := q.modifyGroup(map[string]any{"roles": withEntries(g.withoutRole(q.posted("rolename")), body)}, "group_changed")
	return next, memberError(err)
}

func removeGroupRole(q *request) (string, error) {
	g, err := q.accessGroup()
	if err != nil {
		return "", err
	}
	return q.modifyGroup(map[string]any{"roles": withEntries(g.withoutRole(q.query.Get("rolename")))}, "group_changed")
}

// withoutRole returns the other roles of the group.
func (g *accessGroup) withoutRole(name string) []roleRef {
	return slices.DeleteFunc(slices.Clone(g.Roles), func(r roleRef) bool { return r.Name == name })
}

// search returns the members whose username contains text, regardless of case, and their
// number; the usernames are those of a window.
func (g *accessGroup) search(text string, offset, size int) (names []string, total int) {
	text = strings.ToLower(text)
	for _, m := range g.Clients {
		if !strings.Contains(strings.ToLower(m.Username), text) {
			continue
		}
		if total >= offset && len(names) < size {
			names = append(names, m.Username)
		}
		total++
	}
	return names, total
}
