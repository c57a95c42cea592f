package console

import "net/http"

// sessionPages are the log-in and the root.
func sessionPages() []*page {
	return []*page{
		{path: "/ui", name: "root", calls: []string{"me"}, view: func(q *request) (view, error) {
			return nil, errRedirect{"start"}
		}},
		{path: "/ui/start", name: "start", template: "root", calls: []string{"getPreferences"}, view: func(q *request) (view, error) {
			if q.prefs.FirstStepsDismissed {
				return nil, errRedirect{"home"}
			}
			return nil, errRedirect{"first-steps"}
		}},
		{path: "/ui/login", name: "login", public: true, help: "first-steps", calls: []string{"login"},
			view: viewLogin, actions: map[string]action{"": logIn}},
		{path: "/ui/logout", name: "logout", public: true, calls: []string{"logout"},
			view: func(*request) (view, error) { return nil, errRedirect{"login"} }, actions: map[string]action{"": logOut}},
	}
}

// errRedirect ends a page: the browser goes to another one.
type errRedirect struct{ next string }

// Error names the page.
func (e errRedirect) Error() string { return "redirected to " + e.next }

// loginView is the form with which a session begins.
type loginView struct {
	frame
	Form form
}

func (q *request) loginForm() form {
	return q.newForm("", "login.submit",
		field{Name: "email", Kind: kindText, Required: true, Autocomplete: "username"},
		field{Name: "password", Kind: kindPassword, Required: true, Autocomplete: "current-password"})
}

func viewLogin(q *request) (view, error) {
	if q.signedIn() && q.http.Method == http.MethodGet {
		return nil, errRedirect{q.next()}
	}
	return &loginView{Form: q.loginForm()}, nil
}

// next returns the page to which the log-in leads.
func (q *request) next() string {
	if next := q.query.Get("next"); next != "" && isInside(next) {
		return next
	}
	return "start"
}

func logIn(q *request) (string, error) {
	if err := q.do("login", nil, q.loginForm().body(q.http.PostForm)); err != nil {
		return "", err
	}
	return q.next(), nil
}

func logOut(q *request) (string, error) {
	return "login", q.do("logout", nil, nil)
}
