package console

import (
	"cmp"
	"slices"
	"strings"
)

// accountPages are about the caller.
func accountPages() []*page {
	return []*page{
		{path: "/ui/account", name: "account", help: "security", calls: []string{"me", "updateMe", "changePassword", "getPreferences", "setPreferences", "listSessions"},
			view: viewAccount, actions: map[string]action{"name": saveName, "password": changePassword, "preferences": savePreferences}},
		{path: "/ui/account/sessions/end", name: "account-sessions-end", template: "form", group: "account", help: "security", calls: []string{"endOtherSessions"},
			view: func(q *request) (view, error) {
				return &formView{Intro: []string{q.t("account.sessions.others.what")}, Form: q.confirmForm("account.sessions.others", "", q.root+"/account")}, nil
			},
			actions: map[string]action{"": func(q *request) (string, error) {
				return done("account", "own_sessions_ended", ""), q.do("endOtherSessions", nil, nil)
			}}},
		{path: "/ui/account/sessions/{sessionId}/end", name: "account-session-end", template: "form", group: "account", help: "security", calls: []string{"listSessions", "endSession"},
			view: viewSessionEnd, actions: map[string]action{"": func(q *request) (string, error) {
				return done("account", "own_session_ended", ""), q.do("endSession", nil, nil)
			}}},
	}
}

// accountView is the caller's own account.
type accountView struct {
	frame
	Facts       []fact
	Name        form
	Password    form
	Preferences form
	Sessions    part[[]loginSession]
	Others      bool // there are sessions but this one
}

func viewAccount(q *request) (view, error) {
	v := &accountView{Name: q.nameForm(), Password: q.ownPasswordForm(), Preferences: q.preferencesForm(), Facts: []fact{
		{q.t("col.email"), cell{Text: q.me.Email}}, {q.t("field.user_id"), cell{Text: q.me.ID, Code: true}}}}
	if q.me.Root {
		v.Facts = append(v.Facts, fact{q.t("col.role"), cell{Text: q.t("role.root")}})
	}
	var g parts
	load(&g, q, &v.Sessions, "listSessions", nil)
	g.wait()
	v.Others = slices.ContainsFunc(v.Sessions.Value, func(s loginSession) bool { return !s.Current })
	return v, nil
}

// nameForm changes the caller's name.
func (q *request) nameForm() form {
	return q.newFormOf("name", "save",
		field{Name: "firstname", Kind: kindText, Value: q.me.FirstName, Autocomplete: "given-name"},
		field{Name: "lastname", Kind: kindText, Value: q.me.LastName, Autocomplete: "family-name"})
}

func saveName(q *request) (string, error) {
	return done("account", "name_saved", ""), q.do("updateMe", nil, q.nameForm().body(q.http.PostForm, q.postedNames()...))
}

// ownPasswordForm changes the caller's password.
func (q *request) ownPasswordForm() form {
	return q.newFormOf("password", "account.change",
		field{Name: "current", Kind: kindPassword, Required: true, Autocomplete: "current-password"},
		field{Name: "new", Kind: kindPassword, Required: true, Autocomplete: "new-password"}, q.repeatedField(true))
}

func changePassword(q *request) (string, error) {
	if err := q.checkRepeated("new"); err != nil {
		return "", err
	}
	return done("account", "password_changed", ""), q.do("changePassword", nil, q.ownPasswordForm().body(q.http.PostForm))
}

// loginSession is a session of a user of the service, as the API returns it.
type loginSession struct {
	ID        string `json:"id"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
	Address   string `json:"address"`
	UserAgent string `json:"user_agent"`
	Current   bool   `json:"current"`
}

// Program returns the name of the browser or program that began the session, "" if it is not known.
func (s loginSession) Program() string { return programOf(s.UserAgent) }

// What browsers and systems have in their User-Agent. The first part that is found counts, as most
// browsers also name those that they are compatible with.
var (
	browserParts = [][2]string{{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"Chrome/", "Chrome"}, {"CriOS/", "Chrome"}, {"Safari/", "Safari"}}
	systemParts = [][2]string{{"Android", "Android"}, {"iPhone", "iOS"}, {"iPad", "iPadOS"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"}}
)

// maxProgram bounds the name of a program in characters.
const maxProgram = 60

// programOf returns a short name for a User-Agent: browser and system, otherwise its beginning.
func programOf(agent string) string {
	name := func(parts [][2]string) string {
		for _, part := range parts {
			if strings.Contains(agent, part[0]) {
				return part[1]
			}
		}
		return ""
	}
	browser, system := name(browserParts), name(systemParts)
	switch {
	case browser != "" && system != "":
		return browser + ", " + system
	case browser != "":
		return browser
	}
	if text := []rune(agent); len(text) > maxProgram {
		return string(text[:maxProgram]) + "…"
	}
	return agent
}

func viewSessionEnd(q *request) (view, error) {
	var sessions []loginSession
	if err := q.get("listSessions", nil, &sessions); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sessions, func(s loginSession) bool { return s.ID == q.params["sessionId"] })
	if i < 0 { // it has ended
		return nil, errRedirect{"account"}
	}
	s := sessions[i]
	v := &formView{Form: q.confirmForm("account.session.end", "", q.root+"/account"), Facts: []fact{
		{q.t("account.sessions.program"), cell{Text: cmp.Or(s.Program(), q.t("account.sessions.unknown"))}},
		{q.t("col.address"), cell{Text: cmp.Or(s.Address, q.t("account.sessions.unknown"))}}, {q.t("account.sessions.since"), cell{Time: s.CreatedAt}}}}
	if s.Current {
		v.Warnings = []string{q.t("account.session.own")}
	}
	return v, nil
}

// userSessionsView is the sessions of another user, or one's own as an administrator, before they end.
type userSessionsView struct {
	frame
	Sessions []loginSession
	Intro    string
	Form     form
}

func viewUserSessions(q *request) (view, error) {
	var u userRecord
	if err := q.get("getUser", nil, &u); err != nil {
		return nil, err
	}
	v := &userSessionsView{}
	if err := q.get("listUserSessions", nil, &v.Sessions); err != nil {
		return nil, err
	}
	v.Title = q.t("user.sessions.of", u.Name)
	v.Intro = q.t("users.end.what", show(u.Name), show(u.Email))
	switch {
	case u.ID == q.me.ID:
		v.Intro = q.t("users.end.own")
	case len(v.Sessions) == 0:
		v.Intro = q.t("users.end.none", show(u.Name), show(u.Email))
		return v, nil
	}
	v.Form = q.confirmForm("users.end", "", q.root+"/users")
	return v, nil
}

func endUserSessions(q *request) (string, error) {
	var u userRecord
	if err := q.get("getUser", nil, &u); err != nil {
		return "", err
	}
	return done("users", "user_signed_out", u.Email), q.do("endUserSessions", nil, nil)
}
