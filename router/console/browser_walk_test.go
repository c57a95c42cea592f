package console_test

import (
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console"
)

// session is a caller of pages without a browser.
type session struct {
	t      *testing.T
	base   string
	client *http.Client
	cookie *http.Cookie
}

func newSession(t *testing.T, base string) *session {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, base: base, client: &http.Client{Jar: jar}}
	t.Cleanup(s.client.CloseIdleConnections)
	resp, err := s.client.PostForm(base+"/ui/login", url.Values{"email": {apitest.RootEmail}, "password": {apitest.RootPassword}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	address, err := url.Parse(base + "/ui/home")
	if err != nil || len(jar.Cookies(address)) != 1 {
		t.Fatalf("sign in: %s, cookies %v, %v", resp.Status, jar.Cookies(address), err)
	}
	s.cookie = jar.Cookies(address)[0]
	return s
}

// document is what an address leads to.
type document struct {
	status int
	at     *url.URL // after redirects
	text   string
}

func (s *session) get(address string) document {
	s.t.Helper()
	resp, err := s.client.Get(address)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return document{resp.StatusCode, resp.Request.URL, string(text)}
}

var linkPattern = regexp.MustCompile(`<a [^>]*href="([^"]*)"`)

// links returns where a document leads.
func (s *session) links(d document) (all []*url.URL) {
	for _, m := range linkPattern.FindAllStringSubmatch(d.text, -1) {
		link, err := d.at.Parse(html.UnescapeString(m[1]))
		if err != nil {
			s.t.Errorf("%s has the link %q: %v", d.at, m[1], err)
			continue
		}
		all = append(all, link)
	}
	return all
}

// unlinked are the pages that no link leads to, or that cannot be shown.
var unlinked = map[string]string{
	"root":   "redirects to the first page",
	"start":  "redirects to the first page after the log-in",
	"login":  "is shown without a session",
	"logout": "redirects to the log-in",
	"export": "is a file",

	"cluster-drain":        "is about nodes of another syncmode",
	"listener-certificate": "is a file",
}

// maxAddresses bounds a walk.
const maxAddresses = 2000

// anchor is a part of a page that a link names.
type anchor struct{ from, address, id string }

// walk follows every link from the overview of the embedded broker on. It fails the test
// for those that lead nowhere, and for pages of the table that none leads to. It returns
// an address of each page by its name, followed by the name of its broker unless that is
// the embedded one.
func (s *session) walk(p *plant) map[string]string {
	s.t.Helper()
	start := p.URL + "/ui/p/" + p.Project + "/b/" + p.Embedded + "/overview"
	from := map[string]string{start: "the test"} // the page with the first link to an address
	filtered := p.URL + "/ui/p/" + p.Project + "/b/" + p.Embedded + "/clients?filterTarget=username&filterMode=contains&filterValue=a"
	from[filtered] = "a filter"
	found, texts := map[string]string{}, map[string]string{}
	var anchors []anchor
	for queue := []string{start, filtered}; len(queue) > 0; queue = queue[1:] {
		address := queue[0]
		d := s.get(address)
		texts[address] = d.text
		if d.status != http.StatusOK {
			s.t.Errorf("%s links to %s: %d", from[address], address, d.status)
			continue
		}
		name := console.PageAt(d.at.EscapedPath())
		if name == "" {
			continue // a page of the manual
		}
		if name += p.otherBroker(d.at); found[name] == "" || !namesHostile(found[name]) && namesHostile(address) {
			found[name] = address
		}
		for _, link := range s.links(d) {
			id := link.Fragment
			link.Fragment, link.RawFragment = "", ""
			to := link.String()
			if id != "" {
				anchors = append(anchors, anchor{address, to, id})
			}
			if !strings.HasPrefix(to, p.URL+"/") {
				s.t.Errorf("%s links to %s", address, to)
			} else if from[to] == "" {
				from[to] = address
				queue = append(queue, to)
			}
		}
		if len(from) > maxAddresses {
			s.t.Fatalf("the pages have more than %d addresses, such as %s", maxAddresses, queue[len(queue)-1])
		}
	}
	for _, a := range anchors {
		if text := texts[a.address]; text != "" && !strings.Contains(text, ` id="`+a.id+`"`) {
			s.t.Errorf("%s links to %s#%s, which that page does not have", a.from, a.address, a.id)
		}
	}
	for _, page := range console.Pages() {
		isShown := slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(key string) bool { return strings.HasPrefix(key+" ", page.Name+" ") })
		if !isShown && unlinked[page.Name] == "" {
			s.t.Errorf("no link leads to the page %s", page.Name)
		}
	}
	for name := range unlinked {
		delete(found, name)
	}
	return found
}

// otherBroker returns the name of the broker that a page is about, after a space, or ""
// if that is the embedded one or none.
func (p *plant) otherBroker(at *url.URL) string {
	for id, name := range p.others {
		if strings.Contains(at.Path+"/", "/b/"+id+"/") {
			return " " + name
		}
	}
	return ""
}

// namesHostile reports whether an address contains a hostile name.
func namesHostile(address string) bool {
	text, err := url.QueryUnescape(address)
	return err == nil && strings.Contains(text, markup)
}
