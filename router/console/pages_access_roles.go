package console

import (
	"net/url"
)

// rolePages are those of roles and their rules.
func rolePages() []*page {
	const help = "access-control"
	return []*page{
		{path: brokerPath + "roles", name: "roles", group: "roles", role: viewer, help: help,
			calls: []string{"listRoles"}, view: viewRoles, fragments: []string{"list"}},
		{path: brokerPath + "role", name: "role", group: "roles", role: viewer, help: help,
			calls: []string{"listRoles", "listClients", "listGroups"}, view: viewRole},
		{path: brokerPath + "roles/new", name: "role-new", group: "roles", role: editor, help: help,
			calls: []string{"createRole"}, view: viewRoleEditor,
			actions: map[string]action{"edit": createRole}},
		{path: brokerPath + "roles/edit", name: "role-edit", group: "roles", role: editor, help: help,
			calls: []string{"listRoles", "listClients", "listGroups", "modifyRole"}, view: viewRoleEditor,
			actions: map[string]action{"edit": editRole}},
		{path: brokerPath + "roles/delete", name: "role-delete", group: "roles", role: editor, help: help,
			calls: []string{"listRoles", "listClients", "listGroups", "deleteRole"}, view: viewRoleDelete,
			actions: map[string]action{"delete": deleteRole}},
	}
}

// rolesView is the list of roles.
type rolesView struct {
	accessView
	Roles  part[[]accessRole]
	Filter listFilter
	Paging paging
}

func viewRoles(q *request) (view, error) {
	v := &rolesView{Filter: q.listFilter("rolename", "textname", "textdescription", "topic", "acltype")}
	var g parts
	load(&g, q, &v.Roles, "listRoles", q.filtered())
	g.wait()
	v.Missing, v.Paging = q.missing("dynamic-security", v.Roles.Err), q.pagingOf("listRoles", v.Roles.Total)
	return v, nil
}

// accessRole returns the role that the page's query names.
func (q *request) accessRole() (accessRole, error) {
	return findOne[accessRole](q, rolesByName, q.query.Get("rolename"))
}

// roleUse is which clients have a role, themselves or through groups.
type roleUse struct {
	Clients part[[]accessClient] // the first of them
	Groups  part[[]accessGroup]  // the first of them
}

// maxUsers bounds the clients and groups with a role that a page names.
const maxUsers = 20

func (u *roleUse) load(g *parts, q *request, role string) {
	load(g, q, &u.Clients, "listClients", objectList{"listClients", "rolename", ""}.equalTo(role, maxUsers))
	load(g, q, &u.Groups, "listGroups", objectList{"listGroups", "rolename", ""}.equalTo(role, maxUsers))
}

// None reports whether no client and no group has the role.
func (u roleUse) None() bool {
	return u.Clients.Err == nil && u.Groups.Err == nil && u.Clients.Total == 0 && u.Groups.Total == 0
}

// MoreClients returns the number of clients that are not named.
func (u roleUse) MoreClients() int { return max(0, u.Clients.Total-len(u.Clients.Value)) }

// MoreGroups returns the number of groups that are not named.
func (u roleUse) MoreGroups() int { return max(0, u.Groups.Total-len(u.Groups.Value)) }

// roleView is one role with those who have it.
type roleView struct {
	accessView
	Record accessRole
	Rules  []accessRule // those of this page of the list
	Paging paging
	Use    roleUse
}

func viewRole(q *request) (view, error) {
	r, err := q.accessRole()
	if err != nil {
		if m := q.missing("dynamic-security", q.asAPIError(err)); m != nil {
			return &roleView{accessView: accessView{Missing: m}}, nil
		}
		return nil, err
	}
	v := &roleView{Record: r, Paging: q.paging(len(r.Rules))}
	v.Title = q.t("role.of", r.Name)
	offset, size := q.window()
	v.Rules = r.Rules[min(offset, len(r.Rules)):min(offset+size, len(r.Rules))]
	var g parts
	v.Use.load(&g, q, r.Name)
	g.wait()
	return v, nil
}

// roleDeleteView is the deletion of a role with those who lose it.
type roleDeleteView struct {
	accessView
	Record accessRole
	Use    roleUse
	Form   form
}

func viewRoleDelete(q *request) (view, error) {
	r, err := q.accessRole()
	if err != nil {
		return nil, err
	}
	v := &roleDeleteView{Record: r, Form: q.newFormOf("delete", "role.delete")}
	v.Title, v.Form.Danger, v.Form.Cancel = q.t("role-delete.of", r.Name), true, q.linkInBroker("role", "rolename", r.Name)
	var g parts
	v.Use.load(&g, q, r.Name)
	g.wait()
	return v, nil
}

func deleteRole(q *request) (string, error) {
	name := q.query.Get("rolename")
	if err := q.do("deleteRole", url.Values{"rolename": {name}}, nil); err != nil {
		return "", err
	}
	return done(q.inBroker("roles"), "role_deleted", name), nil
}
