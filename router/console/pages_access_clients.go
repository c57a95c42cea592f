package console

import (
	"net/url"
	"strconv"
)

// clientPages are those of the clients of access control.
func clientPages() []*page {
	const help = "access-control"
	return []*page{
		{path: brokerPath + "clients", name: "clients", group: "clients", role: viewer, change: editor, help: help,
			calls: []string{"listClients", "createJob"}, view: viewClients, fragments: []string{"list"},
			actions: map[string]action{"ask-enable": askSelected("enable"), "ask-disable": askSelected("disable"), "ask-delete": askSelected("delete"),
				"enable": changeSelected("enable"), "disable": changeSelected("disable"), "delete": changeSelected("delete")}},
		{path: brokerPath + "clients/new", name: "client-new", group: "clients", role: editor, help: help,
			calls: []string{"createClient", "listGroups", "listRoles"}, view: viewClientNew,
			actions: map[string]action{"create": createClient}},
		{path: brokerPath + "client", name: "client", group: "clients", role: viewer, change: editor, help: help,
			calls: []string{"listClients", "listGroups", "listRoles", "modifyClient", "enableClient"}, view: viewClient,
			actions: map[string]action{"enable": enableClient, "disable": disableClient, "add_role": addClientRole, "add_group": addClientGroup}},
		{path: brokerPath + "clients/remove", name: "client-remove", template: "form", group: "clients", role: editor, help: help,
			calls: []string{"listClients", "listGroups", "listRoles", "modifyClient"}, view: viewClientRemove,
			actions: map[string]action{"remove_role": removeClientRole, "remove_group": removeClientGroup}},
		{path: brokerPath + "clients/edit", name: "client-edit", group: "clients", role: editor, help: help,
			calls: []string{"listClients", "modifyClient"}, view: viewClientEdit,
			actions: map[string]action{"edit": editClient}},
		{path: brokerPath + "clients/password", name: "client-password", group: "clients", role: editor, help: help,
			calls: []string{"listClients", "modifyClient"}, view: viewClientPassword,
			actions: map[string]action{"password": setClientPassword}},
		{path: brokerPath + "clients/delete", name: "client-delete", group: "clients", role: editor, help: help,
			calls: []string{"listClients", "deleteClient"}, view: viewClientDelete,
			actions: map[string]action{"delete": deleteClient}},
	}
}

// clientsView is the list of clients.
type clientsView struct {
	accessView
	Clients part[[]accessClient]
	Filter  listFilter
	Paging  paging
	Choice  columnChoice

	Bulk     []bulkAction // what can be done with selected clients
	Matching []link       // what can be done with all that match the filter
	Selected selection
	Ask      *formView // asks whether to do it, nil if nothing was selected
}

// fillBulk sets what can be done with selected clients, and the question that follows.
func (v *clientsView) fillBulk(q *request) {
	if q.role() < editor {
		return
	}
	v.Selected = q.selection("selected", "list")
	for _, do := range []string{"enable", "disable", "delete"} {
		v.Bulk = append(v.Bulk, bulkAction{Do: "ask-" + do, Text: q.t("clients.bulk." + do), Danger: do == "delete"})
		if v.Filter.Value != "" {
			v.Matching = append(v.Matching, link{Text: q.t("clients."+do+"_matching", v.Paging.Total), Danger: do == "delete",
				To: q.inBroker("clients/matching", "action", do, "filterTarget", v.Filter.Target, "filterMode", v.Filter.Mode, "filterValue", v.Filter.Value)})
		}
	}
	if q.shown != "" {
		v.Ask = q.selectionForm(q.shown)
	}
}

func viewClients(q *request) (view, error) {
	v := &clientsView{Filter: q.listFilter("username", "clientid", "textname", "textdescription", "rolename", "groupname"), Choice: q.columns(q.t("access.username"),
		q.t("access.state"), q.t("access.textname"), q.t("access.clientid"), q.t("access.groups"), q.t("access.roles"), q.t("access.connected_from"))}
	v.Filter.Choice = v.Choice
	var g parts
	load(&g, q, &v.Clients, "listClients", q.filtered())
	g.wait()
	v.Missing, v.Paging = q.missing("dynamic-security", v.Clients.Err), q.pagingOf("listClients", v.Clients.Total)
	v.fillBulk(q)
	return v, nil
}

// objectFormView is a page with one form about an object, such as its new password or
// its deletion. Affected are the connections that the change closes.
type objectFormView struct {
	accessView
	Form     form
	Intro    string
	Client   *accessClient
	Groups   part[[]string] // names that the form suggests
	Roles    part[[]string]
	Affected string
}

func viewClientNew(q *request) (view, error) {
	v := &objectFormView{Form: q.clientForm(accessClient{}, true)}
	v.Form.Cancel = q.linkInBroker("clients")
	var g parts
	load(&g, q, &v.Groups, "listGroups", suggestions())
	load(&g, q, &v.Roles, "listRoles", suggestions())
	g.wait()
	v.Missing = q.missing("dynamic-security", v.Groups.Err, v.Roles.Err)
	return v, nil
}

// clientForm returns the form of a new client, or of the texts of one that exists.
func (q *request) clientForm(c accessClient, isNew bool) form {
	texts := []field{
		{Name: "clientid", Kind: kindText, Label: q.t("access.clientid"), Hint: q.t("access.clientid.hint"), Value: c.ClientID},
		{Name: "textname", Kind: kindText, Label: q.t("access.textname"), Value: c.TextName},
		{Name: "textdescription", Kind: kindLong, Label: q.t("access.textdescription"), Value: c.TextDescription},
	}
	if !isNew {
		return q.newFormOf("edit", "access.save", texts...)
	}
	return q.newFormOf("create", "client.create", append([]field{
		{Name: "username", Kind: kindText, Label: q.t("access.username"), Hint: q.t("access.username.hint"), Required: true},
		q.passwordField(false),
		{Name: "roles/0/rolename", Kind: kindText, Label: q.t("client.role"), Hint: q.t("client.role.hint"), Suggest: "role-names", Value: q.query.Get("rolename")},
		{Name: "groups/0/groupname", Kind: kindText, Label: q.t("client.group"), Hint: q.t("client.group.hint"), Suggest: "group-names"}}, texts...)...)
}

func (q *request) passwordField(required bool) field {
	f := field{Name: "password", Kind: kindPassword, Label: q.t("access.password"), Autocomplete: "new-password", Required: required}
	if !required {
		f.Hint = q.t("access.password.hint")
	}
	return f
}

func createClient(q *request) (string, error) {
	body := q.clientForm(accessClient{}, true).body(q.http.PostForm)
	if err := q.do("createClient", nil, body); err != nil {
		return "", err
	}
	name := q.posted("username")
	return done(q.inBroker("client", "username", name), "client_created", name), nil
}

// client returns the client that the page's query names.
func (q *request) client() (accessClient, error) {
	return findOne[accessClient](q, clientsByName, q.query.Get("username"))
}

// clientFormView returns the page of a form about the client of the query.
func (q *request) clientFormView(make func(accessClient) form) (view, error) {
	c, err := q.client()
	if err != nil {
		return nil, err
	}
	v := &objectFormView{Form: make(c), Client: &c}
	v.Title = q.t(q.page.name+".of", c.Username)
	v.Form.Cancel = q.linkInBroker("client", "username", c.Username)
	if n := len(c.Connections); n > 0 {
		v.Affected = q.t("client.closes", n)
	}
	return v, nil
}

func viewClientEdit(q *request) (view, error) {
	return q.clientFormView(func(c accessClient) form { return q.clientForm(c, false) })
}

func editClient(q *request) (string, error) {
	body := q.clientForm(accessClient{}, false).body(q.http.PostForm, "clientid", "textname", "textdescription")
	return q.modifyClient(body, "client_changed")
}

// modifyClient changes the client of the query, and returns to its page.
func (q *request) modifyClient(body map[string]any, message string) (string, error) {
	name := q.query.Get("username")
	body["username"] = name
	if err := q.do("modifyClient", nil, body); err != nil {
		return "", err
	}
	return done(q.inBroker("client", "username", name), message, name), nil
}

func viewClientPassword(q *request) (view, error) {
	return q.clientFormView(func(accessClient) form { return q.passwordForm() })
}

func (q *request) passwordForm() form {
	return q.newFormOf("password", "client.password.submit", q.passwordField(true), q.repeatedField(true))
}

func setClientPassword(q *request) (string, error) {
	if err := q.checkRepeated("password"); err != nil {
		return "", err
	}
	return q.modifyClient(map[string]any{"password": q.posted("password")}, "client_password")
}

func viewClientDelete(q *request) (view, error) {
	return q.clientFormView(func(accessClient) form {
		f := q.newFormOf("delete", "client.delete")
		f.Danger = true
		return f
	})
}

func deleteClient(q *request) (string, error) {
	name := q.query.Get("username")
	if err := q.do("deleteClient", url.Values{"username": {name}}, nil); err != nil {
		return "", err
	}
	return done(q.inBroker("clients"), "client_deleted", name), nil
}

func enableClient(q *request) (string, error) { return q.setEnabled(true, "client_enabled") }

func disableClient(q *request) (string, error) { return q.setEnabled(false, "client_disabled") }

func (q *request) setEnabled(enable bool, message string) (string, error) {
	name := q.query.Get("username")
	if err := q.do("enableClient", nil, map[string]any{"username": name, "enable": enable}); err != nil {
		return "", err
	}
	return done(q.inBroker("client", "username", name), message, name), nil
}

// membershipForm returns the form that adds a role or a group: member is the name of the
// field, "rolename" or "groupname".
func (q *request) membershipForm(do, member, suggest string) form {
	return q.newFormOf(do, "access.add",
		field{Name: member, Kind: kindText, Label: q.t("access." + member), Required: true, Suggest: suggest},
		field{Name: "priority", Kind: kindNumber, Label: q.t("access.priority"), Hint: q.t("access.priority.hint"),
			Value: strconv.Itoa(defaultPriority), Min: "-100000", Max: "100000"})
}
