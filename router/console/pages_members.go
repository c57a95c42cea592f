package console

import (
	"net/url"
	"slices"
	"strings"
)

// memberRecord is a member of a project as the API returns it.
type memberRecord struct {
	UserID  string `json:"userId"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Role    string `json:"role"`
	AddedAt any    `json:"added_at"`
}

func viewMembers(q *request) (view, error) {
	var list []memberRecord
	total, err := q.list("listMembers", nil, &list)
	if err != nil {
		return nil, err
	}
	var project struct {
		Owner struct {
			UserID string `json:"userId"`
		} `json:"owner"`
	}
	if err := q.get("getProject", nil, &project); err != nil {
		return nil, err
	}
	administrators := q.administrators()
	v := &listView{Intro: q.t("members.empty"), Paging: q.allOf("listMembers", total), Head: []string{q.t("col.name"), q.t("col.role"), q.t("col.email"), q.t("col.since")}}
	if q.role() >= admin {
		v.Add = link{Text: q.t("members.add"), To: q.inProject("members/new"), Dialog: true}
	}
	for _, m := range list {
		r := row{Cells: []cell{{Text: m.Name}, {Text: q.t("role." + m.Role)}, {Text: m.Email}, {Time: m.AddedAt}}}
		if administrators[m.UserID] {
			r.Cells[1].Quiet = q.t("members.root")
		}
		if m.UserID == project.Owner.UserID {
			r.Cells[1].Quiet = q.t("members.owner")
		} else if q.role() >= admin {
			r.Actions = []link{
				{Text: q.t("members.role"), To: q.inProject("members/edit", "user", m.UserID, "name", m.Name, "role", m.Role), Dialog: true},
				{Text: q.t("remove"), To: q.inProject("members/remove", "user", m.UserID, "name", m.Name), Dialog: true}}
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}

// roleOptions are the roles of a project.
func (q *request) roleOptions() []option {
	return []option{{"viewer", q.t("role.viewer.what")}, {"editor", q.t("role.editor.what")}, {"admin", q.t("role.admin.what")}}
}

// viewMemberNew asks who becomes a member. If all users are members, it leads to a new user.
func viewMemberNew(q *request) (view, error) {
	v := &formView{Form: q.memberForm(), Back: q.backInProject("members")}
	if users := v.Form.Field("user"); len(users.Options) == 1 { // only the request to choose
		v.Form, v.Intro = form{}, []string{q.t("members.all")}
		v.Facts = []fact{{q.t("title.users"), cell{Text: q.t("users.add"), To: "users/new"}}}
	}
	return v, nil
}

// memberForm adds a member, one of the users who are none yet. Only platform administrators may
// list users; others need the id, which the user's account page shows.
func (q *request) memberForm() form {
	user := field{Name: "user", Kind: kindText, Required: true, Label: q.t("field.user_id"), Hint: q.t("hint.user_id")}
	var list struct {
		Data []userRecord `json:"data"`
	}
	if q.role() == root && q.get("listUsers", url.Values{"pageSize": {"500"}}, &list) == nil {
		user = field{Name: "user", Kind: kindSelect, Required: true, Label: q.t("field.user")}
		var members []memberRecord
		q.list("listMembers", nil, &members) //nolint:errcheck // the list is shorter with it, and the operation decides
		user.Options = []option{{"", q.t("members.choose")}}
		for _, u := range list.Data {
			if !slices.ContainsFunc(members, func(m memberRecord) bool { return m.UserID == u.ID }) {
				user.Options = append(user.Options, option{u.ID, show(u.Name + " · " + u.Email)})
			}
		}
	}
	return q.newForm("", "members.add", user, field{Name: "role", Kind: kindRadio, Required: true, Options: q.roleOptions()})
}

func viewMember(q *request) (view, error) {
	v := &formView{Back: q.backInProject("members"), Form: q.newForm("", "save",
		field{Name: "user", Kind: kindHidden, Value: q.query.Get("user")},
		field{Name: "role", Kind: kindRadio, Required: true, Value: q.query.Get("role"), Options: q.roleOptions()})}
	v.Title = q.t("members.role.of", show(q.query.Get("name")))
	return v, nil
}

// withUser returns the parameters of an operation on a user in the project.
func (q *request) withUser(id string) map[string]string {
	return map[string]string{"projectId": q.params["projectId"], "userId": id}
}

func putMember(q *request) (string, error) {
	user := strings.TrimSpace(q.posted("user"))
	if user == "" {
		return "", q.invalid("user", q.t("members.user_required"))
	}
	_, err := q.perform("putMember", q.withUser(user), nil, map[string]any{"role": q.posted("role")}, nil)
	return done(q.inProject("members"), "member_saved", q.query.Get("name")), err
}

func viewMemberRemove(q *request) (view, error) {
	user, what := q.query.Get("user"), "members.remove.what"
	v := &formView{Form: q.confirmForm("title.member-remove", "", q.root+"/"+q.inProject("members"))}
	switch {
	case q.administrators()[user]:
		what = "members.remove.root"
	case user == q.me.ID:
		v.Warnings = []string{q.t("members.remove.own")}
	case !q.me.Root: // who may not know who is an administrator
		what = "members.remove.unless"
	}
	v.Intro = []string{q.t(what, show(q.query.Get("name")))}
	return v, nil
}

// administrators returns the ids of the platform administrators, who act as admin in every
// project whatever their role in it. Only they may know them all.
func (q *request) administrators() map[string]bool {
	ids := map[string]bool{}
	if !q.me.Root {
		return ids
	}
	ids[q.me.ID] = true
	var list struct {
		Roots []struct {
			ID string `json:"id"`
		} `json:"roots"`
	}
	if q.get("listAdmins", url.Values{"pageSize": {"500"}}, &list) == nil {
		for _, u := range list.Roots {
			ids[u.ID] = true
		}
	}
	return ids
}

func removeMember(q *request) (string, error) {
	_, err := q.perform("deleteMember", q.withUser(q.query.Get("user")), nil, nil, nil)
	return done(q.inProject("members"), "member_removed", q.query.Get("name")), err
}
