package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// page is a row of the table: all that the console knows about a page.
type page struct {
	path  string // with parameters as {name}, named as in the paths of the API
	name  string // with "title." before it the key of the title
	group string // the page whose entry in the navigation is current, "" for its own

	template string // name of the template, "" if it is that of the page
	role     role   // minimum role; the API decides all the same
	change   role   // minimum role of the actions, if it is a higher one

	// calls are the operations that the page uses, for the guard test.
	calls []string

	// view returns the data of the template, which embeds frame.
	view func(q *request) (view, error)
	// actions are what the forms of the page do, by the value of their field "do"; ""
	// is that of a form without such a field.
	actions map[string]action
	// fragments are the templates that a request with X-Fragment may have; every page
	// has "content".
	fragments []string
	public    bool   // shown without a session
	large     bool   // sends or receives files, which takes time
	help      string // page of the manual about it, "" for the index

	segments []string
}

// action performs what a posted form asks for. It returns the page to show next,
// relative to the root of the console, "" for the same page.
type action func(q *request) (next string, err error)

// role is a role of the API in the order of what it permits.
type role int

const (
	anyone role = iota
	viewer
	editor
	admin
	root
)

// roleOf returns the role with the name that the API uses.
func roleOf(name string) role {
	return role(max(0, slices.Index([]string{"", "viewer", "editor", "admin", "root"}, name)))
}

func (p *page) prepare(paths func(operation string) string) error {
	p.template = cmp.Or(p.template, p.name)
	p.segments = strings.Split(strings.TrimPrefix(p.path, "/"), "/")
	if p.name == "" || p.view == nil || !strings.HasPrefix(p.path, Path) {
		return errors.New("has no name, no view or no path below " + Path)
	}
	for _, operation := range p.calls {
		if paths(operation) == "" {
			return fmt.Errorf("calls %s, which does not exist", operation)
		}
	}
	return nil
}

// match returns the parameters of a path that is the page's.
func (p *page) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(p.segments) {
		return nil, false
	}
	var params map[string]string
	for i, want := range p.segments {
		name, isParam := strings.CutPrefix(want, "{")
		switch {
		case isParam && segments[i] != "":
			if params == nil {
				params = map[string]string{}
			}
			params[strings.TrimSuffix(name, "}")] = segments[i]
		case isParam || want != segments[i]:
			return nil, false
		}
	}
	return params, true
}

// depthOf returns how many segments of the path stand between it and the root of the
// console: "/ui" has 0, "/ui/users" 1.
func depthOf(path string) int { return strings.Count(strings.TrimPrefix(path, Path), "/") }

// servePage serves a page or what its form does.
func (c *Console) servePage(w http.ResponseWriter, r *http.Request, p *page, params map[string]string) {
	if p != notFoundPage && !p.hasFragments(r) {
		http.Error(w, "this page has no such part", http.StatusBadRequest)
		return
	}
	q := c.newRequest(w, r, p, params)
	if !p.public && !q.signedIn() {
		q.showError(q.noCaller)
		return
	}
	if q.role() < p.role {
		q.showError(q.forbidden())
		return
	}
	if p.large {
		allowTime(w)
	}
	status := http.StatusOK
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if status = q.act(); status == 0 {
			return // redirected
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		status, q.failure = http.StatusMethodNotAllowed, &apiError{Status: http.StatusMethodNotAllowed}
	}
	q.show(status)
}

// largeTransfer bounds the time of a page that sends or receives files, as that of the
// operations that it calls.
const largeTransfer = 10 * time.Minute

// allowTime allows such a page more time than the server's default.
func allowTime(w http.ResponseWriter) {
	deadline := time.Now().Add(largeTransfer)
	c := http.NewResponseController(w)
	c.SetReadDeadline(deadline)  //nolint:errcheck // a connection without deadlines needs none
	c.SetWriteDeadline(deadline) //nolint:errcheck // as above
}

// act performs the action of a posted form. It returns the status with which the page
// is shown again, or 0 if the response has been sent.
func (q *request) act() int {
	if q.role() < q.page.change {
		q.failure = q.asAPIError(q.forbidden())
		return q.failure.Status
	}
	if err := q.parseForm(); err != nil {
		q.failure = q.asAPIError(err)
		return http.StatusBadRequest
	}
	do, ok := q.page.actions[q.http.PostForm.Get("do")]
	if !ok {
		q.failure = &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t("error.no_action")}
		return http.StatusBadRequest
	}
	next, err := do(q)
	if err == nil {
		q.redirect(next)
		return 0
	}
	if errors.Is(err, errShow) {
		return http.StatusOK
	}
	q.failure = q.asAPIError(err)
	if q.failure.Status == http.StatusUnauthorized && !q.page.public {
		q.toLogin()
		return 0
	}
	return q.failure.Status
}

// errShow ends an action whose page is shown with its outcome, such as a secret that is
// returned once, instead of a redirect.
var errShow = errors.New("shown by the page itself")

// show writes the page, or with X-Fragment a part of it.
func (q *request) show(status int) {
	v, err := q.page.view(q)
	if to, ok := errors.AsType[errRedirect](err); ok {
		q.redirect(to.next)
		return
	}
	if file, ok := errors.AsType[errDownload](err); ok {
		q.send(file)
		return
	}
	if err != nil {
		q.showError(err)
		return
	}
	if q.lastPage != "" && q.http.Method != http.MethodPost {
		q.redirect(q.lastPage)
		return
	}
	q.console.write(q, q.page, v, status)
}

// showError writes the page that takes the place of one that cannot be shown. A caller
// whose session has ended logs in again.
func (q *request) showError(err error) {
	e := q.asAPIError(err)
	if e.Status == http.StatusUnauthorized && !q.page.public {
		q.toLogin()
		return
	}
	q.console.write(q, errorPage, &errorView{Err: e}, e.Status)
}
