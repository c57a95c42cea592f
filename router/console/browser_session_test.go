package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// TestSignIn is refused with a wrong password, leads to the page that was asked for, and
// ends with a sign-out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			p := browsertest.Open(t, api.URL+"/ui/account", options...)
			p.Expect("401 Unauthorized")
			fillLogin(p, "wrong horse battery")
			p.WaitFor("document.querySelector('[role=alert]')")
			if p.Count("#f-password[value]:not([value=''])") > 0 || !strings.Contains(p.URL(), "/ui/login") {
				t.Errorf("after a wrong password: %s", p.URL())
			}
			fillLogin(p, apitest.RootPassword)
			p.WaitFor("location.pathname === '/ui/account'")
			signOut(p)
			p.Go(api.URL + "/ui/home")
			if !strings.Contains(p.URL(), "/ui/login?next=home") {
				t.Errorf("after the sign-out, the home page leads to %s", p.URL())
			}
		})
	}
}

// TestSignIn_locked guesses a password until the caller's address has to wait. The page states
// for how long, refuses the right password meanwhile and accepts it then.
func TestSignIn_locked(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) { c.HTTP.TrustedProxies = []string{"127.0.0.1"} })
	p := browsertest.Open(t, from(t, "198.51.100.7", api.URL)+"/ui/account")
	p.Expect("401 Unauthorized")
	p.Expect("429 Too Many Requests")
	var began time.Time // of the last guess
	var stated time.Duration
	suite.WaitFor(t, "the page states a time of more than one second", func() bool {
		began, stated = time.Now(), logInAgain(p, "wrong horse battery")
		return stated > time.Second
	})
	refused := 0
	suite.WaitFor(t, "the right password is accepted", func() bool {
		if logInAgain(p, apitest.RootPassword) > 0 {
			refused++
		}
		return strings.HasSuffix(p.URL(), "/ui/account")
	})
	waited := time.Since(began)
	t.Logf("the right password was refused %d times, in %s after a page that stated %s", refused, waited, stated)
	if waited <= stated-time.Second || stated > time.Minute { // the time is rounded up
		t.Errorf("signed in %s after a page that stated %s", waited, stated)
	}
}

// logInAgain sends the form of the log-in, filled in as by the browser, and returns how long the
// page that follows asks the user to wait, 0 if it does not.
func logInAgain(p *browsertest.Page, password string) (wait time.Duration) {
	p.Evaluate(fmt.Sprintf(`document.querySelector("#f-email").value = %q; document.querySelector("#f-password").value = %q`, apitest.RootEmail, password), nil)
	p.Submit("main form .primary")
	text, _, _ := strings.Cut(p.Text("[role=alert]"), "\n")
	_, stated, _ := strings.Cut(text, "too many failed log-ins; try again in ")
	wait, _ = time.ParseDuration(stated) // 0 without a time
	return wait
}

// TestConsole_below_a_path signs in and visits every page of the navigation behind a
// proxy that adds a path, with and without scripts.
func TestConsole_below_a_path(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			address := behind(t, api.URL)
			p := signIn(t, address+"/", options...)
			visited := 0
			for _, start := range []string{"/ui/home", "/ui/p/" + api.Project + "/brokers"} {
				p.Go(address + start)
				var links []string
				p.Evaluate("[...document.querySelectorAll('nav.side a, a.mark')].map(a => a.href)", &links)
				for _, link := range links {
					if !strings.HasPrefix(link, address+"/ui/") {
						t.Errorf("%s links to %s", start, link)
						continue
					}
					p.Go(link)
					if visited++; p.Count("h1") != 1 || !strings.HasPrefix(p.URL(), address) {
						t.Errorf("%s leads to %s", link, p.URL())
					}
				}
			}
			if visited < 5 {
				t.Errorf("visited %d pages", visited)
			}
		})
	}
}

// TestService_restarts while a page is open: the page works again, and the session is
// still there.
func TestService_restarts(t *testing.T) {
	t.Parallel()
	dir, listen := apitest.In(t.TempDir()), suite.Host()+":0"
	on := func(c *appliance.Config) { c.HTTP.Listen = listen }
	api := apitest.New(t, dir, on)
	p := signIn(t, api.URL+"/ui/account")
	p.Expect("net::ERR_CONNECTION_REFUSED")
	api.Stop()
	p.Click("a.mark")
	p.WaitFor("location.protocol === 'chrome-error:'")
	listen = strings.TrimPrefix(api.URL, "http://")
	apitest.New(t, dir, on)
	p.Reload()
	p.WaitFor("location.pathname === '/ui/home' && document.querySelector('h1')")
}

// TestSession_ends while a form is filled in: what was typed stays, and can be sent after
// another log-in.
func TestSession_ends(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/projects/new")
	other := browsertest.Open(t, api.URL+"/ui/login", withSessionOf(p, api.URL))
	other.Go(api.URL + "/ui/home")
	signOut(other)
	p.Fill("#f-name", "lab")
	p.Click("main form .primary")
	p.WaitFor(`document.querySelector('main [role="alert"] a')?.pathname === '/ui/login' && document.querySelector('#f-name').value === 'lab'`)
	p.CheckAccessibility()
	s := newSession(t, api.URL)
	browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value)(p)
	p.Click("main form .primary")
	p.WaitFor("location.pathname === '/ui/projects' && document.querySelector('#main').innerText.includes('lab')")
}

// withSessionOf opens a tab with the session of another one.
func withSessionOf(p *browsertest.Page, url string) browsertest.Option {
	name, value := p.Cookie()
	return browsertest.WithCookie(url, name, value)
}

// TestBudget bounds what a browser transfers and shows.
func TestBudget(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	s := newSession(t, api.URL)
	p := browsertest.Open(t, api.URL+"/ui/home", browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))
	first := p.Traffic()
	p.Go(api.URL + "/ui/p/" + api.Project + "/brokers")
	later := p.Traffic()
	t.Logf("first page: %+v, a later one: %+v", first, later)
	if first.Requests > 6 || first.Bytes > 60<<10 {
		t.Errorf("the first page: %+v, at most 6 requests and 60 KiB", first)
	}
	if later.Bytes > 15<<10 {
		t.Errorf("a later page: %+v, at most 15 KiB", later)
	}
}
