package console

import (
	"errors"
	"slices"
	"strings"
)

// clientView is one client with its rights.
type clientView struct {
	accessView
	Client     accessClient
	Rights     []right
	MoreRights int // that are not shown
	RightsErr  *apiError
	Closes     string // what a change means for the connections
	AddRole    form
	AddGroup   form
	Groups     part[[]string] // names that the forms suggest
	Roles      part[[]string]
}

func viewClient(q *request) (view, error) {
	c, err := q.client()
	if err != nil {
		if m := q.missing("dynamic-security", q.asAPIError(err)); m != nil {
			return &clientView{accessView: accessView{Missing: m}}, nil
		}
		return nil, err
	}
	v := &clientView{Client: c, Closes: q.closes(c), AddRole: q.membershipForm("add_role", "rolename", "role-names"),
		AddGroup: q.membershipForm("add_group", "groupname", "group-names")}
	v.Title = q.t("client.of", c.Username)
	var g parts
	if q.role() >= editor {
		load(&g, q, &v.Groups, "listGroups", suggestions())
		load(&g, q, &v.Roles, "listRoles", suggestions())
	}
	g.run(func() { v.loadRights(q) })
	g.wait()
	return v, nil
}

// maxRights bounds the rules that a page shows.
const maxRights = 300

func (v *clientView) loadRights(q *request) {
	held, err := q.heldRoles(v.Client)
	if err != nil {
		v.RightsErr = q.asAPIError(err)
		return
	}
	for _, e := range accessEvents {
		v.Rights = append(v.Rights, e.rightsOf(held)...)
	}
	if len(v.Rights) > maxRights {
		v.MoreRights, v.Rights = len(v.Rights)-maxRights, v.Rights[:maxRights]
	}
}

// addClientRole adds the posted role to the client's, or changes its priority.
func addClientRole(q *request) (string, error) {
	body := q.membershipForm("add_role", "rolename", "").body(q.http.PostForm)
	c, err := q.client()
	if err != nil {
		return "", err
	}
	roles := withEntries(slices.DeleteFunc(c.Roles, func(r roleRef) bool { return r.Name == q.posted("rolename") }), body)
	next, err := q.modifyClient(map[string]any{"roles": roles}, "client_changed")
	return next, memberError(err)
}

func removeClientRole(q *request) (string, error) {
	c, err := q.client()
	if err != nil {
		return "", err
	}
	roles := withEntries(slices.DeleteFunc(c.Roles, func(r roleRef) bool { return r.Name == q.query.Get("rolename") }))
	return q.modifyClient(map[string]any{"roles": roles}, "client_changed")
}

// addClientGroup adds the posted group to the client's, or changes its priority.
func addClientGroup(q *request) (string, error) {
	body := q.membershipForm("add_group", "groupname", "").body(q.http.PostForm)
	c, err := q.client()
	if err != nil {
		return "", err
	}
	next, err := q.modifyClient(map[string]any{"groups": withEntries(c.withoutGroup(q.posted("groupname")), body)}, "client_changed")
	return next, memberError(err)
}

func removeClientGroup(q *request) (string, error) {
	c, err := q.client()
	if err != nil {
		return "", err
	}
	return q.modifyClient(map[string]any{"groups": withEntries(c.withoutGroup(q.query.Get("groupname")))}, "client_changed")
}

// withoutGroup returns the other groups of the client.
func (c *accessClient) withoutGroup(name string) []groupRef {
	return slices.DeleteFunc(slices.Clone(c.Groups), func(g groupRef) bool { return g.Name == name })
}

// withEntries returns the list for the body of a change: existing members, and added ones.
func withEntries[T any](existing []T, added ...any) []any {
	list := make([]any, 0, len(existing)+len(added))
	for _, m := range existing {
		list = append(list, m)
	}
	return append(list, added...)
}

// memberError moves the errors of an entry of a list to the fields of the form that adds
// it: "body.roles[2].priority" becomes "body.priority".
func memberError(err error) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	for i, f := range e.Info.Errors {
		if at := strings.LastIndexByte(f.Field, '.'); strings.HasSuffix(f.Field[:max(at, 0)], "]") {
			e.Info.Errors[i].Field = "body" + f.Field[at:]
		}
	}
	return e
}
