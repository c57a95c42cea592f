package console

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// request is the browser's request for a page.
type request struct {
	console  *Console
	w        http.ResponseWriter
	http     *http.Request
	page     *page
	params   map[string]string
	query    url.Values
	me       *caller   // nil without a session
	noCaller error     // why me is nil
	failure  *apiError // of the posted form, nil if there is none
	result   any       // of the action, for a page that is shown again
	lang     *locale
	root     string // from the page to /ui
	prefs    preferences
	lastPage string      // link to the last page of a list whose query is past the end, otherwise ""
	shown    string      // what an action returned for its page to show
	trial    *trial      // as above: the outcome of the test of a connection
	stale    atomic.Bool // a response that the page shows may be older than what was acknowledged

	calls   sync.Mutex            // protects the field below
	queries map[string]calledWith // of the last call of each operation that succeeded
}

// caller is the response of the operation me.
type caller struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	FirstName string `json:"firstname"`
	LastName  string `json:"lastname"`
	Email     string `json:"email"`
	Root      bool   `json:"root"`
	Projects  []struct {
		ID   string `json:"id"`
		Role string `json:"role"`
	} `json:"projects"`
}

func (c *Console) newRequest(w http.ResponseWriter, r *http.Request, p *page, params map[string]string) *request {
	q := &request{console: c, w: w, http: r, page: p, params: params, query: r.URL.Query(), root: rootFrom(r.URL.Path)}
	q.lang = c.words.pick("", r.Header.Get("Accept-Language"))
	var me caller
	if q.noCaller = q.get("me", nil, &me); q.noCaller == nil {
		q.me = &me
		q.loadPreferences()
		q.lang = c.words.pick(q.prefs.Language, r.Header.Get("Accept-Language"))
	}
	return q
}

// rootFrom returns the relative link from a path to /ui: "ui" from "/ui" itself, "." from
// "/ui/users", ".." from "/ui/p/1".
func rootFrom(path string) string {
	switch depth := depthOf(path); depth {
	case 0:
		return "ui"
	case 1:
		return "."
	default:
		return strings.TrimSuffix(strings.Repeat("../", depth-1), "/")
	}
}

func (q *request) signedIn() bool { return q.me != nil }

// role returns the caller's role in the project of the page; outside of a project viewer,
// or root for a platform administrator.
func (q *request) role() role {
	switch {
	case q.me == nil:
		return anyone
	case q.me.Root:
		return root
	case q.params["projectId"] == "":
		return viewer
	}
	return q.roleIn(q.params["projectId"])
}

// roleIn returns the caller's role in a project.
func (q *request) roleIn(project string) role {
	if q.me.Root {
		return root
	}
	for _, p := range q.me.Projects {
		if p.ID == project {
			return roleOf(p.Role)
		}
	}
	return anyone
}

// t returns the text of a key in the caller's language.
func (q *request) t(key string, args ...any) string { return q.lang.text(key, args...) }

// known returns a text, or another one where this version of the console has none.
func (q *request) known(key, other string) string {
	if q.lang.has(key) {
		return q.t(key)
	}
	return show(other)
}

// done returns the link to a page with the message that something succeeded: key is that
// of a text with the object's name as its only argument.
func done(page, key, name string) string {
	separator := "?"
	if strings.Contains(page, "?") {
		separator = "&"
	}
	return page + separator + url.Values{"done": {key}, "of": {name}}.Encode()
}

// redirect sends the browser to a page, relative to the root of the console; "" is the
// same page. A script learns the link from a header instead, since it cannot read it
// from a redirect.
func (q *request) redirect(next string) {
	link := q.root + "/" + next
	if next == "" {
		next = q.withoutOnce()
	}
	if next == "" || strings.HasPrefix(next, "?") {
		link = q.http.URL.Path[strings.LastIndexByte(q.http.URL.Path, '/')+1:] + next
	}
	if fragmentsOf(q.http) != nil {
		q.w.Header().Set("X-Location", link)
		q.w.WriteHeader(http.StatusNoContent)
		return
	}
	q.w.Header()["Location"] = []string{link}
	q.w.WriteHeader(http.StatusSeeOther)
}

// toLogin sends the browser to the log-in, from where it returns to the page.
func (q *request) toLogin() {
	here := strings.TrimPrefix(strings.TrimPrefix(q.http.URL.Path, Path), "/") + q.withoutOnce()
	link := "login"
	if here != "" {
		link += "?" + url.Values{"next": {here}}.Encode()
	}
	q.redirect(link)
}

// The bounds of a posted form, in bytes: of the log-in, which anybody may send, of others,
// whose largest field is the body of an operation, and of one with a file of 64 MiB.
const (
	maxPublicForm = 16 << 10
	maxForm       = 4 << 20 // an operation takes 1 MiB, of which a form may encode each byte as three
	maxUpload     = 65 << 20
)

// formBound returns the bound of the page's form.
func (p *page) formBound() int64 {
	switch {
	case p.public:
		return maxPublicForm
	case p.large:
		return maxUpload
	}
	return maxForm
}

// parseForm reads the posted form.
func (q *request) parseForm() error {
	q.http.Body = http.MaxBytesReader(q.w, q.http.Body, q.page.formBound())
	var err error
	if q.page.large && strings.HasPrefix(q.http.Header.Get("Content-Type"), "multipart/form-data") {
		if err = q.http.ParseMultipartForm(maxUpload); err == nil {
			err = q.readFiles()
		}
	} else {
		err = q.http.ParseForm()
	}
	if err != nil {
		return &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST", Message: q.t("error.form")}
	}
	return nil
}

// readFiles makes the content of each posted file the value of its field.
func (q *request) readFiles() error {
	for name, files := range q.http.MultipartForm.File {
		for _, header := range files[:min(1, len(files))] {
			f, err := header.Open()
			if err != nil {
				return err
			}
			content, err := io.ReadAll(f)
			f.Close() //nolint:errcheck // it was read
			if err != nil {
				return err
			}
			q.http.PostForm.Set(name, string(content))
		}
	}
	return nil
}

// posted returns a field of the posted form, "" if there is none.
func (q *request) posted(name string) string { return q.http.PostForm.Get(name) }

// apiURL returns the address of an operation for a command that the user copies, as the
// browser knows the service.
func (q *request) apiURL(path string) string {
	scheme := "http"
	if q.http.TLS != nil {
		scheme = "https"
	}
	if origin := q.http.Header.Get("Origin"); strings.Contains(origin, "://") {
		return origin + path
	}
	return scheme + "://" + q.http.Host + path
}
