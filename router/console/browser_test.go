package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// TestMain runs the tests of the console, and of all else that the service shows in a
// browser, in a real one in front of a whole service.
func TestMain(m *testing.M) { browsertest.Main(m) }

// prefix is the path below which behind serves.
const prefix = "/ops/mqtt"

// behind starts a reverse proxy in front of a service, which does not know that its
// pages are below a path, and returns the address of its beginning.
func behind(t *testing.T, service string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, proxy(t, service, (*httputil.ProxyRequest).SetXForwarded)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + prefix
}

// from starts a reverse proxy in front of a service, which reports that all its callers have an
// IP address, and returns its own address.
func from(t *testing.T, caller, service string) (address string) {
	t.Helper()
	server := httptest.NewServer(proxy(t, service, func(r *httputil.ProxyRequest) { r.Out.Header.Set("X-Forwarded-For", caller) }))
	t.Cleanup(server.Close)
	return server.URL
}

func proxy(t *testing.T, service string, forwarded func(*httputil.ProxyRequest)) http.Handler {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		forwarded(r)
	}}
}

// signIn opens a page of the console and signs in on the way to it.
func signIn(t *testing.T, address string, options ...browsertest.Option) *browsertest.Page {
	t.Helper()
	p := browsertest.Open(t, address, options...)
	p.WaitFor("location.pathname.endsWith('/ui/login')")
	fillLogin(p, apitest.RootPassword)
	p.WaitFor("!location.pathname.endsWith('/ui/login') && document.readyState === 'complete'")
	return p
}

func fillLogin(p *browsertest.Page, password string) {
	p.Fill("#f-email", apitest.RootEmail)
	p.Fill("#f-password", password)
	p.Click("main form .primary")
}

// signOut opens the user's menu and ends the session.
func signOut(p *browsertest.Page) {
	p.Click("[popovertarget='user-menu']")
	p.Click("#user-menu form button")
	p.WaitFor("location.pathname.endsWith('/ui/login')")
}
