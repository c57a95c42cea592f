package console

import (
	"net/url"
	"strconv"
	"strings"
)

// userPages manage users and administrators.
func userPages() []*page {
	return []*page{
		{path: "/ui/users", name: "users", template: "list", role: root, help: "security", calls: []string{"listUsers"}, view: viewUsers, fragments: []string{"list"}},
		{path: "/ui/users/new", name: "user-new", template: "form", group: "users", role: root, help: "security", calls: []string{"createUser"},
			view:    func(q *request) (view, error) { return &formView{Form: q.userForm(), Back: q.back("users")}, nil },
			actions: map[string]action{"": createUser}},
		{path: "/ui/users/{userId}", name: "user", template: "form", group: "users", role: root, help: "security", calls: []string{"getUser", "updateUser"},
			view: viewUser, actions: map[string]action{"": updateUser}},
		{path: "/ui/users/{userId}/delete", name: "user-delete", template: "form", group: "users", role: root, help: "security", calls: []string{"getUser", "deleteUser", "listProjects"},
			view: viewUserDelete, actions: map[string]action{"": deleteUser}},
		{path: "/ui/users/{userId}/sessions", name: "user-sessions", group: "users", role: root, help: "security", calls: []string{"getUser", "listUserSessions", "endUserSessions"},
			view: viewUserSessions, actions: map[string]action{"": endUserSessions}},
		{path: "/ui/administrators", name: "administrators", template: "list", role: root, help: "security", calls: []string{"listAdmins"}, view: viewAdministrators, fragments: []string{"list"}},
		{path: "/ui/administrators/new", name: "administrator-new", template: "form", group: "administrators", role: root, help: "security", calls: []string{"addAdmin"},
			view: func(q *request) (view, error) {
				return &formView{Intro: []string{q.t("administrators.new")}, Form: q.newForm("", "administrators.add", field{Name: "email", Kind: kindText, Required: true}), Back: q.back("administrators")}, nil
			},
			actions: map[string]action{"": func(q *request) (string, error) {
				return done("administrators", "administrator_added", q.posted("email")), q.do("addAdmin", url.Values{"email": {q.posted("email")}}, nil)
			}}},
		{path: "/ui/administrators/remove", name: "administrator-remove", template: "form", group: "administrators", role: root, help: "security", calls: []string{"removeAdmin"},
			view: func(q *request) (view, error) {
				v := &formView{Intro: []string{q.t("administrators.remove.what", show(q.query.Get("email")))}, Form: q.confirmForm("administrators.remove", "", q.root+"/administrators")}
				if strings.EqualFold(q.query.Get("email"), q.me.Email) {
					v.Warnings = []string{q.t("administrators.remove.own")}
				}
				return v, nil
			},
			actions: map[string]action{"": func(q *request) (string, error) {
				email := q.query.Get("email")
				return done("administrators", "administrator_removed", email), q.do("removeAdmin", url.Values{"email": {email}}, nil)
			}}},
	}
}

// back returns the link to a list of the platform.
func (q *request) back(page string) link { return link{Text: q.t("back." + page), To: page} }

// userRecord is a user as the API returns it.
type userRecord struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	FirstName string `json:"firstname"`
	LastName  string `json:"lastname"`
	Verified  bool   `json:"verified"`
	Email     string `json:"email"`
	CreatedAt string `json:"created_at"`
	LastSeen  any    `json:"last_seen"`
	Projects  int    `json:"project_count"`
	Brokers   int    `json:"broker_count"`
}

func viewUsers(q *request) (view, error) {
	offset, size := q.window()
	var list struct {
		Total int          `json:"total"`
		Data  []userRecord `json:"data"`
	}
	query := url.Values{"page": {strconv.Itoa(offset / size)}, "pageSize": {strconv.Itoa(size)}}
	if err := q.get("listUsers", query, &list); err != nil {
		return nil, err
	}
	v := &listView{Intro: q.t("users.empty"), Add: link{Text: q.t("users.add"), To: "users/new", Dialog: true}, Paging: q.paging(list.Total),
		Head: []string{q.t("col.name"), q.t("col.email"), q.t("col.projects"), q.t("col.brokers"), q.t("col.last_seen"), q.t("col.created")}}
	v.Choice = q.columns(v.Head...)
	for _, u := range list.Data {
		name := cell{Text: u.Name, To: "users/" + u.ID}
		if !u.Verified {
			name.Quiet = q.t("users.access.blocked")
		}
		r := row{Cells: []cell{name, {Text: u.Email}, {Text: q.lang.number(u.Projects), Number: true}, {Text: q.lang.number(u.Brokers), Number: true}, {Time: u.LastSeen}, {Time: u.CreatedAt}},
			Actions: []link{{Text: q.t("edit"), To: "users/" + u.ID, Dialog: true}}}
		if u.Verified { // others have no session
			r.Actions = append(r.Actions, link{Text: q.t("account.sessions"), To: "users/" + u.ID + "/sessions", Dialog: true})
		}
		r.Actions = append(r.Actions, link{Text: q.t("delete"), To: "users/" + u.ID + "/delete", Dialog: true})
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}

func (q *request) userForm() form {
	return q.newForm("", "users.add",
		field{Name: "email", Kind: kindText, Required: true},
		field{Name: "firstname", Kind: kindText}, field{Name: "lastname", Kind: kindText},
		field{Name: "password", Kind: kindPassword, Required: true, Autocomplete: "new-password", Hint: q.t("hint.least")}, q.repeatedField(true),
		field{Name: "verified", Kind: kindCheckbox, Checked: true})
}

func createUser(q *request) (string, error) {
	if err := q.checkRepeated("password"); err != nil {
		return "", err
	}
	return done("users", "user_created", q.posted("email")), q.do("createUser", nil, q.userForm().body(q.http.PostForm))
}

func viewUser(q *request) (view, error) {
	var u userRecord
	if err := q.get("getUser", nil, &u); err != nil {
		return nil, err
	}
	v := &formView{Form: q.userChange(u), Back: q.back("users"), Facts: []fact{
		{q.t("col.created"), cell{Time: u.CreatedAt}}, {q.t("col.projects"), cell{Text: q.lang.number(u.Projects)}}}}
	if u.ID == q.me.ID {
		v.Warnings = []string{q.t("users.access.own")}
	}
	v.Title = q.t("user.of", u.Name)
	return v, nil
}

// userChange returns the form that changes a user.
func (q *request) userChange(u userRecord) form {
	return q.newForm("", "save",
		field{Name: "email", Kind: kindText, Value: u.Email},
		field{Name: "firstname", Kind: kindText, Value: u.FirstName}, field{Name: "lastname", Kind: kindText, Value: u.LastName},
		field{Name: "password", Kind: kindPassword, Autocomplete: "new-password", Label: q.t("field.new_password"), Hint: q.t("hint.new_password")}, q.repeatedField(false),
		field{Name: "access", Kind: kindRadio, Value: strconv.FormatBool(u.Verified), Options: []option{{"true", q.t("users.access.allowed")}, {"false", q.t("users.access.blocked")}}})
}

func updateUser(q *request) (string, error) {
	if err := q.checkRepeated("password"); err != nil {
		return "", err
	}
	body := q.userChange(userRecord{}).body(q.http.PostForm, q.postedNames()...)
	if access, ok := body["access"]; ok {
		delete(body, "access")
		body["verified"] = access == "true"
	}
	return done("users", "user_updated", q.posted("email")), q.do("updateUser", nil, body)
}

// postedNames returns which of the two names were posted: they may be empty.
func (q *request) postedNames() (keep []string) {
	for _, name := range []string{"firstname", "lastname"} {
		if q.http.PostForm.Has(name) {
			keep = append(keep, name)
		}
	}
	return keep
}

func viewUserDelete(q *request) (view, error) {
	var u userRecord
	if err := q.get("getUser", nil, &u); err != nil {
		return nil, err
	}
	owned, err := q.projectsOf(u.ID)
	if err != nil {
		return nil, err
	}
	if len(owned) > 0 {
		return &formView{Intro: []string{q.t("users.delete.owner", show(u.Name), show(u.Email))}, Facts: append(owned, fact{q.t("field.access"), cell{Text: q.t("users.delete.block"), To: "users/" + u.ID}}), Back: q.back("users")}, nil
	}
	v := &formView{Intro: []string{q.t("users.delete.what", show(u.Name), show(u.Email))}, Form: q.confirmForm("users.delete", "", q.root+"/users")}
	if u.ID == q.me.ID {
		v.Warnings = []string{q.t("users.delete.own")}
	}
	return v, nil
}

// projectsOf returns links to the projects that a user owns. Such a user cannot be deleted.
func (q *request) projectsOf(user string) (owned []fact, err error) {
	var list []struct {
		projectRecord
		Owner struct {
			UserID string `json:"userId"`
		} `json:"owner"`
	}
	if _, err := q.list("listProjects", nil, &list); err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.Owner.UserID == user {
			owned = append(owned, fact{q.t("nav.project"), cell{Text: p.Name, To: "p/" + p.ID + "/settings"}})
		}
	}
	return owned, nil
}

func deleteUser(q *request) (string, error) {
	var u userRecord
	if err := q.get("getUser", nil, &u); err != nil {
		return "", err
	}
	return done("users", "user_deleted", u.Email), q.do("deleteUser", nil, nil)
}

func viewAdministrators(q *request) (view, error) {
	offset, size := q.window()
	var list struct {
		Total int `json:"total"`
		Roots []struct {
			Name      string `json:"name"`
			Email     string `json:"email"`
			Removable bool   `json:"isRemovable"`
		} `json:"roots"`
	}
	query := url.Values{"page": {strconv.Itoa(offset / size)}, "pageSize": {strconv.Itoa(size)}}
	if err := q.get("listAdmins", query, &list); err != nil {
		return nil, err
	}
	v := &listView{Intro: q.t("administrators.empty"), Add: link{Text: q.t("administrators.add"), To: "administrators/new", Dialog: true},
		Paging: q.paging(list.Total), Head: []string{q.t("col.name"), q.t("col.email")}}
	for _, a := range list.Roots {
		r := row{Cells: []cell{{Text: a.Name}, {Text: a.Email}}}
		if a.Removable {
			r.Actions = []link{{Text: q.t("remove"), To: withPairs("administrators/remove", []string{"email", a.Email}), Dialog: true}}
		} else {
			r.Cells[1].Quiet = q.t("administrators.last")
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}
