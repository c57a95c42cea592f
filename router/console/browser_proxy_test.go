package console_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// nginxConfig is the configuration of an nginx with the defaults of Debian's, but for where
// its files are. Its arguments are its address and the location.
const nginxConfig = `user root;
daemon off;
pid nginx.pid;
error_log stderr notice;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	server {
		listen %s;
		%s
	}
}
`

var nginxBlock = regexp.MustCompile("(?ms)^```nginx\n(.*?)^```$")

// behindNginx starts nginx in front of a service, with the location that the manual has, and
// returns the address of the beginning of its path.
func behindNginx(t *testing.T, service string) (address string) {
	t.Helper()
	text, err := os.ReadFile("../manual/configuration.md")
	block := nginxBlock.FindSubmatch(text)
	if err != nil || block == nil {
		t.Fatal("the manual has no configuration of nginx: ", err)
	}
	location := strings.ReplaceAll(string(block[1]), "http://127.0.0.1:8080", service)
	dir, listen := t.TempDir(), brokertest.FreePort(t, suite.Host())
	file := write(t, filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, nginxConfig, listen, location))
	nginx, err := process.Start(exec.Command(nginxPath(t), "-p", dir, "-e", "stderr", "-c", file), func(line string) bool {
		return strings.Contains(line, "start worker process ")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nginx.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if err := nginx.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "http://" + listen + prefix
}

func nginxPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	process.Missing(t, "nginx is not installed (apt-get install nginx-light, or scripts/install)")
	return ""
}

// TestConsole_behind_nginx uses what differs behind a real reverse proxy: pages, parts of
// them, dialogs, streams of events, the manual, and the session.
func TestConsole_behind_nginx(t *testing.T) {
	t.Parallel()
	dir, listen := apitest.In(t.TempDir()), suite.Host()+":0"
	on := func(c *appliance.Config) { c.HTTP.Listen = listen }
	api := apitest.New(t, dir, on)
	address := behindNginx(t, api.URL)
	pages := address + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/"
	p := signIn(t, pages+"clients")
	at := func(page, shown string) {
		t.Helper()
		p.WaitFor(fmt.Sprintf("location.href.startsWith(%q) && %s", pages+page, shown))
	}
	for _, name := range []string{"pump-7", "valve-1"} { // in a dialog, from the list
		at("clients", "document.querySelector('main .heading [data-dialog]')")
		p.Click("main .heading [data-dialog]")
		p.WaitFor("document.querySelector('#dialog').open")
		p.Fill("#dialog [name=username]", name)
		p.Fill("#dialog [name=password]", secret)
		p.Click("#dialog form .primary")
		at("client?", fmt.Sprintf("document.querySelector('h1').innerText.includes(%q)", name))
		p.Click("nav.side a[href$='/clients']")
	}
	at("clients", "document.querySelector('[name=filterValue]')")
	p.Fill("[name=filterValue]", "pump")
	at("clients?", "location.search.includes('pump') && document.querySelectorAll('#list tbody tr').length === 1")

	p.Go(pages + "overview")
	p.Evaluate("window.samples = 0; document.addEventListener('sample', () => { window.samples++ })", nil)
	at("overview", "window.samples > 1")
	p.Click("[data-help]")
	p.WaitFor(fmt.Sprintf("location.href.startsWith(%q) && document.querySelector('h1')", address+"/docs/"))
	p.Back()

	at("overview", `document.querySelector('[data-state="live"]')?.checkVisibility()`)
	list := browsertest.Open(t, pages+"clients", withSessionOf(p, address))
	p.Expect("502 Bad Gateway")
	list.Expect("502 Bad Gateway")
	api.Stop()
	at("overview", `document.querySelector('[data-state="lost"]').checkVisibility()`)
	p.WaitFor("performance.getEntriesByType('resource').some(e => e.responseStatus === 502)") // of another attempt
	list.Fill("[name=filterValue]", "valve")
	list.WaitFor("document.querySelector('main > .failed')")
	listen = strings.TrimPrefix(api.URL, "http://")
	apitest.New(t, dir, on)
	at("overview", `document.querySelector('[data-state="live"]').checkVisibility()`)
	list.WaitFor("!document.querySelector('main > .failed') && document.querySelectorAll('#list tbody tr').length === 1")
	signOut(p)
	if got := p.URL(); !strings.HasPrefix(got, address+"/ui/login") {
		t.Errorf("the sign-out leads to %s", got)
	}
}
