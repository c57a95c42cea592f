package console

import (
	"html/template"
	"slices"
)

// navGroup is a heading of the navigation with its entries.
type navGroup struct {
	Title   string // "" for none
	Entries []navEntry
}

// navEntry leads to a page.
type navEntry struct {
	Title   string
	Link    string
	Current bool
	Icon    string
	Key     string // the letter that leads here after "g", "" for none
}

// html returns the entry as a link. Every page has many of them: in a template they take as
// long as the rows of a table.
func (e navEntry) html(icon template.HTML) template.HTML {
	attributes := ""
	if e.Current {
		attributes += ` aria-current="page"`
	}
	if e.Key != "" {
		attributes += ` data-key="` + template.HTMLEscapeString(e.Key) + `"`
	}
	return template.HTML(`<a href="`+template.HTMLEscapeString(e.Link)+`"`+attributes+`>`) + icon + //nolint:gosec // escaped
		template.HTML(template.HTMLEscapeString(e.Title)+`</a>`) //nolint:gosec // escaped
}

// navItem is an entry of a table of the navigation: the name of a page, and the role
// that it needs.
type navItem struct {
	page, icon string
	role       role
}

// The tables of the navigation: that of the platform, of a project and of a broker. Each
// group is a heading ("nav.NAME") and its pages.
var (
	platformNav = []navSection{
		{"", []navItem{{page: "home", icon: "brokers"}, {page: "projects", icon: "project"}, {page: "first-steps", icon: "check"}}},
		{"platform", []navItem{{page: "users", icon: "users", role: root}, {page: "administrators", icon: "shield", role: root}, {page: "audit", icon: "clock", role: root}, {page: "backups", icon: "download", role: root},
			{page: "system", icon: "settings", role: root}}},
	}
	projectNav = []navSection{
		{"", []navItem{{page: "brokers", icon: "brokers"}, {page: "clusters", icon: "cluster"}}},
		{"project", []navItem{{page: "members", icon: "users"}, {page: "tokens", icon: "key", role: viewer}, {page: "project-audit", icon: "clock", role: admin}, {page: "project-settings", icon: "settings", role: admin}}},
	}
	brokerNav = []navSection{
		{"", []navItem{{page: "overview", icon: "overview"}}},
		{"clients", []navItem{{page: "sessions", icon: "sessions"}, {page: "subscriptions", icon: "subscriptions"}, {page: "denials", icon: "denied"}, {page: "bans", icon: "ban"}}},
		{"topics", []navItem{{page: "topics", icon: "tree"}, {page: "retained", icon: "retained"}, {page: "messages", icon: "messages"}, {page: "ttl", icon: "clock"}}},
		{"access", []navItem{{page: "clients", icon: "client"}, {page: "groups", icon: "users"}, {page: "roles", icon: "shield"}, {page: "default-access", icon: "default"},
			{page: "check", icon: "check"}, {page: "import", icon: "transfer", role: admin}}},
		{"flow", []navItem{{page: "streams", icon: "stream"}, {page: "bridges", icon: "bridge"}}},
		{"broker", []navItem{{page: "listeners", icon: "listener"}, {page: "connection", icon: "connection"}}},
	}
)

type navSection struct {
	name  string
	items []navItem
}

// navigation returns the entries that the caller may open.
func navigation(q *request, current *page, f *frame) []navGroup {
	sections, base := platformNav, q.root
	switch {
	case q.params["brokerId"] != "":
		sections, base = brokerNav, f.Here
	case q.params["projectId"] != "":
		sections, base = projectNav, f.Here
	}
	var groups []navGroup
	for _, s := range sections {
		g := navGroup{}
		if s.name != "" {
			g.Title = q.t("nav." + s.name)
		}
		for _, item := range s.items {
			p := q.console.pageNamed(item.page)
			if p == nil || f.Role < item.role {
				continue
			}
			g.Entries = append(g.Entries, navEntry{Title: q.t("title." + item.page), Link: base + p.tail(),
				Current: item.page == current.name || item.page == current.group, Icon: item.icon, Key: shortcuts[item.page]})
		}
		if g.Entries != nil {
			groups = append(groups, g)
		}
	}
	return groups
}

// tail returns the path of the page below its broker, its project or the root.
func (p *page) tail() string {
	i := 1 // after "ui"
	for j, s := range p.segments {
		if s == "{brokerId}" || s == "{projectId}" {
			i = j + 1
		}
	}
	tail := ""
	for _, s := range p.segments[min(i, len(p.segments)):] {
		tail += "/" + s
	}
	if tail == "" && len(p.segments) == 1 {
		return "/home"
	}
	return tail
}

func (c *Console) pageNamed(name string) *page {
	if i := slices.IndexFunc(c.pages, func(p *page) bool { return p.name == name }); i >= 0 {
		return c.pages[i]
	}
	return nil
}
