package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// frame is what every page shows around its content. The views of pages embed it.
type frame struct {
	Title   string
	Lang    string
	Theme   string // system, light or dark
	Density string
	Zone    string // time zone of the user, "" for UTC
	Me      *caller
	Role    role
	Project *projectRecord // nil outside of a project
	Broker  *brokerRecord  // nil outside of a broker
	Nav     []navGroup
	Here    string // link from the page to its project or broker, "" on pages of the platform
	Done    string // message that something succeeded, "" for none
	Failure *apiError
	Help    string // page of the manual, "" for the index
	Stale   bool   // what is shown may be older than what was acknowledged at other nodes
	Part    bool   // only fragments below the content are written

	// What the scripts need.
	Shortcuts bool   // single keys are shortcuts
	Fragments string // names of the parts that can be loaded alone, with commas
	Search    string // link to the search of the API, "" if there is none
	Now       int64  // clock of the service, in epoch milliseconds
}

func (f *frame) base() *frame { return f }

// projectRecord is the part of a project that pages show.
type projectRecord struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Role        string `json:"role"`
}

// AtLeast reports whether the caller has a role: "viewer", "editor", "admin" or "root".
func (f *frame) AtLeast(name string) bool { return f.Role >= roleOf(name) }

// Away reports whether the page is about a broker that is not connected, so that its actions
// would fail.
func (f *frame) Away() bool { return f.Broker != nil && !f.Broker.Status.Connected }

// fillFrame completes the frame of a view.
func (c *Console) fillFrame(q *request, p *page, f *frame) {
	f.Lang = q.lang.Tag
	f.Theme, f.Density, f.Zone = q.prefs.Theme, q.prefs.Density, q.prefs.TimeZone
	f.Me, f.Role, f.Failure = q.me, q.role(), q.failure
	c.fillScripts(q, p, f)
	f.Help, f.Stale = p.help, q.stale.Load()
	if f.Title == "" {
		f.Title = q.t("title." + p.name)
	}
	if key := q.query.Get("done"); key != "" && q.http.Method != http.MethodPost && q.lang.has("done."+key) {
		f.Done = q.t("done."+key, show(q.query.Get("of")))
	}
	parts := fragmentsOf(q.http)
	f.Part, f.Here = parts != nil && parts[0] != contentPart, q.scopePath()
	if parts != nil || q.me == nil {
		return
	}
	q.fillScope(f)
	f.Nav = navigation(q, p, f)
}

// scopePath returns the link from the page to its project or broker, "" without one.
func (q *request) scopePath() string {
	here := ""
	if id := q.params["projectId"]; id != "" {
		here = q.root + "/p/" + id
	}
	if id := q.params["brokerId"]; id != "" {
		here += "/b/" + id
	}
	return here
}

// fillScope loads the project and the broker of the page's path. What cannot be loaded is
// left out: the page itself has said why.
func (q *request) fillScope(f *frame) {
	var g parts
	if q.params["projectId"] != "" {
		g.run(func() {
			var project projectRecord
			if q.get("getProject", nil, &project) == nil {
				f.Project = &project
			}
		})
		if q.params["brokerId"] != "" {
			g.run(func() {
				var broker brokerRecord
				if q.get("getBroker", nil, &broker) == nil {
					f.Broker = &broker
				}
			})
		}
	}
	g.wait()
}

// errorView is the view of the page that takes the place of one that cannot be shown.
type errorView struct {
	frame
	Err *apiError
}

var (
	errorPage    = &page{name: "error", template: "error", public: true}
	notFoundPage = &page{name: "error", template: "error", public: true, view: func(q *request) (view, error) {
		return nil, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: q.t("error.no_page")}
	}}
)

// isInside reports whether a link of a form or a query leads to a page of the console: it
// is relative to /ui and neither names a host nor leaves the directory, also once a browser
// has resolved its percent-encoding.
func isInside(link string) bool {
	path, _, _ := strings.Cut(link, "?")
	plain, err := url.PathUnescape(path)
	return err == nil && !strings.HasPrefix(plain, "/") && !strings.ContainsAny(plain, `:\`) &&
		!slices.Contains(strings.Split(plain, "/"), "..") && strings.IndexFunc(plain+link, isInvisible) < 0
}
