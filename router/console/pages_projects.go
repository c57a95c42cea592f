package console

import (
	"net/http"
	"net/url"
	"slices"
	"time"
)

// projectPages are the projects, and what belongs to one besides its brokers.
func projectPages() []*page {
	return []*page{
		{path: "/ui/projects", name: "projects", template: "list", role: viewer, help: "first-steps", calls: []string{"listProjects"}, view: viewProjects},
		{path: "/ui/projects/new", name: "project-new", template: "form", group: "projects", role: viewer, help: "first-steps", calls: []string{"createProject"},
			view: func(q *request) (view, error) {
				return &formView{Form: q.projectForm(projectRecord{}, "projects.add"), Back: q.back("projects")}, nil
			},
			actions: map[string]action{"": createProject}},
		{path: "/ui/p/{projectId}/settings", name: "project-settings", template: "form", role: admin, help: "first-steps", calls: []string{"getProject", "updateProject"},
			view: viewProjectSettings, actions: map[string]action{"": updateProject}},
		{path: "/ui/p/{projectId}/export", name: "project-export", template: "document", group: "project-settings", role: editor, help: "first-steps", calls: []string{"getProjectSettings"}, view: viewProjectExport},
		{path: "/ui/p/{projectId}/delete", name: "project-delete", template: "form", group: "project-settings", role: admin, help: "first-steps", calls: []string{"getProject", "deleteProject", "listBrokers"},
			view: viewProjectDelete, actions: map[string]action{"": deleteProject}},
		{path: "/ui/p/{projectId}/members", name: "members", template: "list", role: viewer, help: "security", calls: []string{"listMembers", "getProject", "listAdmins"}, view: viewMembers},
		{path: "/ui/p/{projectId}/members/new", name: "member-new", template: "form", group: "members", role: admin, help: "security", calls: []string{"putMember", "listUsers", "listMembers"},
			view: viewMemberNew, actions: map[string]action{"": putMember}},
		{path: "/ui/p/{projectId}/members/edit", name: "member", template: "form", group: "members", role: admin, help: "security", calls: []string{"putMember"},
			view: viewMember, actions: map[string]action{"": putMember}},
		{path: "/ui/p/{projectId}/members/remove", name: "member-remove", template: "form", group: "members", role: admin, help: "security", calls: []string{"deleteMember", "listAdmins"},
			view: viewMemberRemove, actions: map[string]action{"": removeMember}},
		{path: "/ui/p/{projectId}/tokens", name: "tokens", template: "list", role: viewer, help: "security", calls: []string{"listTokens"}, view: viewTokens},
		{path: "/ui/p/{projectId}/tokens/new", name: "token-new", template: "token", group: "tokens", role: admin, help: "security", calls: []string{"createToken", "listBrokers"},
			view: viewTokenNew, actions: map[string]action{"": createToken}},
		{path: "/ui/p/{projectId}/tokens/expired", name: "tokens-expired", template: "form", group: "tokens", role: admin, help: "security", calls: []string{"deleteToken", "listTokens"},
			large: true, view: viewTokensExpired, actions: map[string]action{"": revokeExpired}},
		{path: "/ui/p/{projectId}/tokens/{tokenId}/revoke", name: "token-revoke", template: "form", group: "tokens", role: admin, help: "security", calls: []string{"deleteToken", "listTokens"},
			view: viewTokenRevoke, actions: map[string]action{"": revokeToken}},
		{path: "/ui/p/{projectId}/tokens/{tokenId}/owner", name: "token-owner", template: "form", group: "tokens", role: admin, help: "security", calls: []string{"takeToken", "listTokens"},
			view: viewTokenOwner, actions: map[string]action{"": takeToken}},
	}
}

// backInProject returns the link to a list of the project.
func (q *request) backInProject(page string) link {
	return link{Text: q.t("back." + page), To: q.inProject(page)}
}

func viewProjects(q *request) (view, error) {
	var list []struct {
		projectRecord
		Owner struct {
			Name string `json:"name"`
		} `json:"owner"`
		Members int `json:"members"`
		Brokers int `json:"brokers"`
	}
	total, err := q.list("listProjects", url.Values{"counts": {"true"}}, &list)
	if err != nil {
		return nil, err
	}
	v := &listView{Intro: q.t("projects.empty"), Add: link{Text: q.t("projects.add"), To: "projects/new", Dialog: true}, Paging: q.allOf("listProjects", total),
		Head: []string{q.t("col.name"), q.t("col.your_role"), q.t("col.owner"), q.t("title.members"), q.t("col.brokers"), q.t("col.description")}}
	v.Choice = q.columns(v.Head...)
	for _, p := range list {
		r := row{Cells: []cell{{Text: p.Name, To: "p/" + p.ID + "/brokers"}, {Text: q.t("role." + p.Role)}, {Text: p.Owner.Name},
			{Text: q.lang.number(p.Members), Number: true}, {Text: q.lang.number(p.Brokers), Number: true}, {Text: p.Description}}}
		if p.Role == "admin" {
			r.Actions = []link{{Text: q.t("settings"), To: "p/" + p.ID + "/settings"}}
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}

func (q *request) projectForm(p projectRecord, submit string) form {
	return q.newForm("", submit,
		field{Name: "name", Kind: kindText, Required: true, Value: p.Name},
		field{Name: "description", Kind: kindLong, Value: p.Description})
}

func createProject(q *request) (string, error) {
	body := q.projectForm(projectRecord{}, "projects.add").body(q.http.PostForm)
	return done("projects", "project_created", q.posted("name")), q.do("createProject", nil, body)
}

func viewProjectSettings(q *request) (view, error) {
	var p projectRecord
	if err := q.get("getProject", nil, &p); err != nil {
		return nil, err
	}
	v := &formView{Form: q.projectForm(p, "save"), Links: []link{
		{Text: q.t("settings.export.what"), To: q.inProject("export")},
		{Text: q.t("projects.delete"), To: q.inProject("delete"), Danger: true}}}
	return v, nil
}

func updateProject(q *request) (string, error) {
	body := q.projectForm(projectRecord{}, "save").body(q.http.PostForm, "description")
	return done(q.inProject("settings"), "project_updated", q.posted("name")), q.do("updateProject", nil, body)
}

// documentView is a page that shows a document, to be copied.
type documentView struct {
	frame
	Intro string
	Text  string
	Back  link
}

func viewProjectExport(q *request) (view, error) {
	var raw []byte
	if err := q.get("getProjectSettings", nil, &raw); err != nil {
		return nil, err
	}
	return &documentView{Intro: q.t("settings.export.intro"), Text: indented(raw), Back: q.backInProject("settings")}, nil
}

func viewProjectDelete(q *request) (view, error) {
	var p projectRecord
	if err := q.get("getProject", nil, &p); err != nil {
		return nil, err
	}
	var brokers []brokerRecord
	if err := q.get("listBrokers", nil, &brokers); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(brokers, func(b brokerRecord) bool { return b.Embedded() }) {
		return &formView{Intro: []string{q.t("projects.delete.embedded", show(p.Name))}, Back: q.backInProject("settings")}, nil
	}
	v := &formView{Intro: []string{q.t("projects.delete.what", show(p.Name)), q.t("projects.delete.brokers", len(brokers))},
		Form: q.confirmForm("projects.delete", p.Name, q.root+"/"+q.inProject("settings"))}
	purge := field{Name: "purge", Kind: kindCheckbox}
	if len(brokers) > 0 {
		purge.Hint = q.t("projects.delete.needed")
		v.Intro = append(v.Intro, q.t("projects.delete.purged"))
	}
	v.Form.Fields = q.newForm("", "projects.delete", purge).Fields
	return v, nil
}

func deleteProject(q *request) (string, error) {
	var p projectRecord
	if err := q.get("getProject", nil, &p); err != nil {
		return "", err
	}
	if err := q.confirmed(p.Name); err != nil {
		return "", err
	}
	return done("projects", "project_deleted", p.Name), q.do("deleteProject", q.purgeQuery(), nil)
}

// tokenRecord is a token as the API returns it.
type tokenRecord struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Issuer    string   `json:"issuer"`
	OwnerID   string   `json:"owner_id"`
	ParentID  string   `json:"parent_id"`
	Role      string   `json:"role_id"`
	Effective string   `json:"effective_role_id"`
	Type      string   `json:"type"`
	Brokers   []string `json:"brokers"`
	Issued    int64    `json:"issue_date"`
	Valid     int64    `json:"valid_date"`
	LastUsed  int64    `json:"last_used_date"`
}

func viewTokens(q *request) (view, error) {
	var list []tokenRecord
	total, err := q.list("listTokens", nil, &list)
	if err != nil {
		return nil, err
	}
	v := &listView{Intro: q.t("tokens.empty"), Paging: q.allOf("listTokens", total),
		Head: []string{q.t("col.name"), q.t("col.role"), q.t("col.reach"), q.t("col.issuer"), q.t("col.created"), q.t("col.expires"), q.t("col.last_used")}}
	v.Choice = q.columns(v.Head...)
	if q.role() >= admin {
		v.Add = link{Text: q.t("tokens.add"), To: q.inProject("tokens/new")}
	}
	for _, t := range list {
		v.Rows = append(v.Rows, q.tokenRow(t))
	}
	if n := len(expired(list)); n > 0 && q.role() >= admin {
		v.More = []link{{Text: q.t("tokens.expired", n), To: q.inProject("tokens/expired"), Dialog: true}}
	}
	return v, nil
}

func (q *request) tokenRow(t tokenRecord) row {
	reach := cell{Text: q.t("tokens.unrestricted")}
	if t.Type == "restricted" {
		reach.Text = q.t("tokens.restricted", len(t.Brokers))
	}
	role := cell{Text: q.t("role." + t.Role)}
	if t.Effective != t.Role {
		role.State, role.Quiet = "warn", q.t("tokens.effective", q.t("role."+t.Effective))
	}
	r := row{Cells: []cell{{Text: t.Name}, role, reach, {Text: t.Issuer}, {Time: t.Issued}, q.expiry(t.Valid, time.Now()), {Time: t.LastUsed}}}
	if q.role() >= admin {
		if t.OwnerID != q.me.ID || t.ParentID != "" {
			r.Actions = []link{{Text: q.t("tokens.owner"), To: q.inProject("tokens/" + t.ID + "/owner"), Dialog: true}}
		}
		r.Actions = append(r.Actions, link{Text: q.t("tokens.revoke"), To: q.inProject("tokens/" + t.ID + "/revoke"), Dialog: true})
	}
	return r
}

// tokenView is the form for a new token, and once it was created the token itself.
type tokenView struct {
	frame
	Form    form
	Token   string
	Example string
	Back    link
}

func (q *request) tokenForm() form {
	var brokers []brokerRecord
	var names []option
	if q.get("listBrokers", nil, &brokers) == nil {
		for _, b := range brokers {
			names = append(names, option{b.ID, show(b.Name)})
		}
	}
	fields := []field{{Name: "name", Kind: kindText, Required: true},
		{Name: "role", Kind: kindRadio, Required: true, Value: "viewer", Options: q.roleOptions()}}
	if len(names) == 0 {
		fields = append(fields, field{Name: "type", Kind: kindHidden, Value: "unrestricted"})
	} else {
		fields = append(fields, field{Name: "type", Kind: kindRadio, Required: true, Value: "unrestricted", Options: []option{{"unrestricted", q.t("tokens.unrestricted")}, {"restricted", q.t("tokens.restricted.what")}}},
			field{Name: "brokers", Kind: kindChecks, Label: q.t("field.token_brokers"), Options: names})
	}
	return q.newForm("", "tokens.add", append(fields, field{Name: "valid_date", Kind: "date"})...)
}

func viewTokenNew(q *request) (view, error) {
	v := &tokenView{Form: q.tokenForm(), Back: q.backInProject("tokens"), Token: q.shown}
	v.Form.Cancel = q.root + "/" + v.Back.To
	if v.Token != "" {
		v.Example = "curl -H 'Authorization: Bearer " + v.Token + "' " + q.apiURL("/api/projects/"+q.params["projectId"]+"/brokers")
	}
	return v, nil
}

// createToken shows the page again, with the token: it is returned this once. Brokers that a
// token is not restricted to are refused, because the operation ignores them.
func createToken(q *request) (string, error) {
	if q.posted("type") != "restricted" && len(q.http.PostForm["brokers"]) > 0 {
		return "", q.invalid("brokers", q.t("tokens.not_restricted"))
	}
	var created struct {
		Token string `json:"token"`
	}
	if _, err := q.perform("createToken", q.params, nil, q.tokenForm().body(q.http.PostForm), &created); err != nil {
		return "", err
	}
	q.shown = created.Token
	return "", errShow
}

// tokenNamed returns the token of the page's path.
func (q *request) tokenNamed() (tokenRecord, error) {
	var list []tokenRecord
	if err := q.get("listTokens", nil, &list); err != nil {
		return tokenRecord{}, err
	}
	for _, t := range list {
		if t.ID == q.params["tokenId"] {
			return t, nil
		}
	}
	return tokenRecord{}, &apiError{Status: 404, Code: "NOT_FOUND", Message: q.t("tokens.unknown")}
}

func viewTokenRevoke(q *request) (view, error) {
	t, err := q.tokenNamed()
	return &formView{Intro: []string{q.t("tokens.revoke.what", show(t.Name))}, Form: q.confirmForm("tokens.revoke", "", q.root+"/"+q.inProject("tokens"))}, err
}

func revokeToken(q *request) (string, error) {
	t, err := q.tokenNamed()
	if err != nil {
		return "", err
	}
	return done(q.inProject("tokens"), "token_revoked", t.Name), q.do("deleteToken", nil, nil)
}

// expired returns the tokens that are no longer valid.
func expired(list []tokenRecord) []tokenRecord {
	now := time.Now().UnixMilli()
	return slices.DeleteFunc(slices.Clone(list), func(t tokenRecord) bool { return t.Valid == 0 || t.Valid >= now })
}

// expiredTokens returns the tokens of the project that are no longer valid.
func (q *request) expiredTokens() ([]tokenRecord, error) {
	var list []tokenRecord
	err := q.get("listTokens", nil, &list)
	return expired(list), err
}

func viewTokensExpired(q *request) (view, error) {
	list, err := q.expiredTokens()
	v := &formView{Intro: []string{q.t("tokens.expired.what", len(list))}, Form: q.confirmForm("tokens.revoke", "", q.root+"/"+q.inProject("tokens"))}
	for _, t := range list[:min(len(list), maxListed)] {
		v.Facts = append(v.Facts, fact{show(t.Name), cell{Time: t.Valid}})
	}
	return v, err
}

// maxListed bounds the objects that are named in a question about many.
const maxListed = 20

// revokeExpired revokes the tokens that are no longer valid. One may have ended with that which created it.
func revokeExpired(q *request) (string, error) {
	list, err := q.expiredTokens()
	for _, t := range list {
		params := map[string]string{"projectId": q.params["projectId"], "tokenId": t.ID}
		if _, err := q.perform("deleteToken", params, nil, nil, nil); err != nil && q.asAPIError(err).Status != http.StatusNotFound {
			return "", err
		}
	}
	return done(q.inProject("tokens"), "tokens_revoked", q.lang.number(len(list))), err
}

func viewTokenOwner(q *request) (view, error) {
	t, err := q.tokenNamed()
	v := &formView{Intro: []string{q.t("tokens.owner.what", show(t.Name))}, Form: q.newForm("", "tokens.owner"), Back: q.backInProject("tokens")}
	return v, err
}

func takeToken(q *request) (string, error) {
	t, err := q.tokenNamed()
	if err != nil {
		return "", err
	}
	return done(q.inProject("tokens"), "token_taken", t.Name), q.do("takeToken", nil, nil)
}
