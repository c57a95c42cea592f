package systemtest

import (
	"strings"
	"testing"

	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// TestConsole_survives_a_kill kills the service while pages are open: an overview, a list and
// a form. Each shows that the connection is lost, and works again after the restart without
// being loaded anew; what was typed and the session stay.
func TestConsole_survives_a_kill(t *testing.T) {
	t.Parallel()
	dir, s := dataDir(t), configured(settings{"HTTP_LISTEN": suite.Host() + ":0"})
	p := serve(t, dir, s)
	c := root(t, p)
	for _, name := range []string{"pump-7", "valve-1"} {
		c.must(t, "POST", c.at("/clients"), object{"username": name, "password": rootPassword}, nil)
	}
	pages := p.API + "/ui/p/" + c.project + "/b/" + c.embedded + "/"
	overview := browsertest.Open(t, pages+"overview")
	overview.Fill("#f-email", rootEmail)
	overview.Fill("#f-password", rootPassword)
	overview.Click("main form .primary")
	overview.WaitFor(`document.querySelector('[data-state="live"]')?.checkVisibility()`)
	name, value := overview.Cookie()
	session := browsertest.WithCookie(p.API, name, value)
	list, form := browsertest.Open(t, pages+"clients", session), browsertest.Open(t, pages+"clients/new", session)
	form.Fill("[name=username]", "meter-1")
	for _, page := range []*browsertest.Page{overview, list, form} {
		page.Expect("net::ERR_")
		page.Evaluate("window.sameDocument = true", nil)
	}

	p.Kill()
	overview.WaitFor(`document.querySelector('[data-state="lost"]')?.checkVisibility()`)
	list.Fill("[name=filterValue]", "pump")
	list.WaitFor(`document.querySelector('main > .failed')`)
	form.Click("main form .primary")
	form.WaitFor(`document.querySelector('main > .failed')`)
	for _, page := range []*browsertest.Page{overview, list, form} {
		page.CheckAccessibility()
	}
	s["HTTP_LISTEN"] = strings.TrimPrefix(p.API, "http://")
	serve(t, dir, s)
	overview.WaitFor(`document.querySelector('[data-state="live"]').checkVisibility() && !document.querySelector('#figures .message')`)
	list.WaitFor(`!document.querySelector('main > .failed') && document.querySelectorAll('#list tbody tr').length === 1`)
	form.Fill("[name=textname]", "Meter 1")
	for _, page := range []*browsertest.Page{overview, list, form} {
		page.WaitFor("window.sameDocument")
	}
	form.Click("main form .primary")
	form.WaitFor(`location.search.includes('meter-1') && document.querySelector('h1').innerText.includes('meter-1')`)
}
