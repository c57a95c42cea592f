package apitest_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"signalbox/broker/embedded/listen"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestConsoleUser checks that the page of a user shows the names and whether the user may sign
// in, and that saving it as it is changes nothing.
func TestConsoleUser(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	var u struct{ ID string }
	a.Root.Post("/api/users", object{"email": "ada@example.com", "password": apitest.RootPassword, "firstname": "Ada", "lastname": "Lovelace", "verified": false}).Want(200).Decode(&u)
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	page, blocked := "/users/"+u.ID, []string{`value="Ada"`, `value="Lovelace"`, `value="false" checked`}
	b.Want(b.Get(page), 200, blocked...)
	b.Want(b.Get("/users"), 200, `<p class="quiet">May not sign in</p>`)
	form := formOf([]string{"email", "ada@example.com", "firstname", "Ada", "lastname", "Lovelace", "access", "false"})
	b.Want(b.Post(page, form), 200, `class="message good"`)
	b.Want(b.Get(page), 200, blocked...)
	form.Set("access", "true")
	form.Set("lastname", "")
	b.Want(b.Post(page, form), 200, `class="message good"`)
	b.Lacks(b.Want(b.Get(page), 200, `value="Ada"`, `value="true" checked`), "Lovelace")
	b.Lacks(b.Get("/users"), "May not sign in")
}

// TestConsoleRoleTakesControl checks that the editor warns before rules that manage the broker
// are removed or become denials, and only then.
func TestConsoleRoleTakesControl(t *testing.T) {
	t.Parallel()
	a := apitest.New(t)
	c := openConsole(a, apitest.RootEmail, apitest.RootPassword)
	a.Root.Post(a.At("/roles"), object{"rolename": "operator", "acls": []object{
		{"acltype": "publishClientSend", "topic": "$CONTROL/dynamic-security/v1", "priority": 0, "allow": true},
		{"acltype": "publishClientReceive", "topic": "$CONTROL/dynamic-security/v1/response", "priority": 0, "allow": true}}}).Want(204)
	const warning = "The change takes topics below $CONTROL"
	send, receive := "allow publishClientSend $CONTROL/dynamic-security/v1\n", "allow publishClientReceive $CONTROL/dynamic-security/v1/response\n"
	preview := func(lines string) *apitest.Page {
		return c.Want(c.Post(c.at("roles/edit", "rolename", "operator"), formOf([]string{"do", "edit", "step", "preview", "mode", "lines", "lines", lines})), 200, "Show what changes")
	}
	for _, lines := range []string{send, "deny" + strings.TrimPrefix(send, "allow") + receive} {
		c.Want(preview(lines), 200, warning)
	}
	c.Lacks(preview(send+receive+"allow subscribeLiteral a\n"), warning)
}

// TestConsoleHealth checks that the overview shows the certificates, backups and queues, and the
// backups to platform administrators only.
func TestConsoleHealth(t *testing.T) {
	t.Parallel()
	p := issueCertificates(t)
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) {
		c.Broker.Listeners = append(c.Broker.Listeners, listen.Config{Protocol: listen.MQTTS, Address: "127.0.0.1:0", CertFile: p.file("cert.pem"), KeyFile: p.file("key.pem")})
		c.Backup.Directory = t.TempDir()
	})
	away := join(t, api, 5, "away", asAdmin, persistent)
	away.Subscribe(1, "q")
	away.Disconnect()
	for range 3 {
		api.Root.Post(api.At("/messages"), object{"topic": "q", "payload": "x", "qos": 1}).Want(204)
	}
	v, root := visit(t, api, "admin"), api.Browser(apitest.RootEmail, apitest.RootPassword)
	shown := []string{">Certificates</dt>", "/listeners\">expires ", "/sessions?by=queue\">3 messages stored for clients</a></span><p class=\"quiet\">3 in the longest queue</p>"}
	if text := v.page("overview", shown...); strings.Contains(text, "backup") {
		t.Errorf("an administrator of the project sees:\n%s", text)
	}
	root.Want(root.Get(v.base+"overview"), 200, append(shown, " free</a></span></dd><dt>Last backup</dt>", "/backups\">No backup is verified</a>")...)
	api.Root.Post("/api/backups", nil).Want(200)
	root.Lacks(root.Want(root.Get(v.base+"overview"), 200, append(shown, "Last backup</dt><dd><span class=\"state good\">")...), "No backup is verified")
	remote := &visitor{v.Browser, t, "/p/" + api.Project + "/b/" + addBroker(t, api, object{"name": "away", "url": "mqtt://127.0.0.1:1"}) + "/"}
	remote.Lacks(remote.Get(remote.base+"overview"), "Certificates", "stored for clients")
}

// TestConsoleRetainedOfSystem checks that the overview and the list state which retained
// messages they count, and that deleting all of them needs a typed word.
func TestConsoleRetainedOfSystem(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	v := visit(t, api, "editor")
	api.Root.Post(api.At("/messages"), object{"topic": "a", "payload": "1", "qos": 1, "retain": true}).Want(204)
	v.page("overview", "Retained messages, with $SYS")
	const without = "Without topics that begin with $"
	for filter, is := range map[string]bool{"": true, "#": true, "+/b": true, "$SYS/#": false, "a": false} {
		if text := v.page(withQuery("retained", "filter", filter)); strings.Contains(text, without) != is {
			t.Errorf("filter %q: the list states that it is without $SYS: %v, want %v", filter, !is, is)
		}
	}
	for _, all := range []string{"#", "+", "+/#"} {
		page := withQuery("retained/delete-matching", "filter", all)
		v.page(page, `name="confirm"`)
	}
	page := withQuery("retained/delete-matching", "filter", "#")
	v.again(page, doing("delete", "count", "1"), 400, "Type")
	api.Root.Get(api.At("/messages/retained?topic=a")).Want(200)
	v.Lacks(v.Get(v.base+withQuery("retained/delete-matching", "filter", "a")), `name="confirm"`)
	v.post(page, doing("delete", "count", "1", "confirm", "all"))
	api.Root.Get(api.At("/messages/retained?topic=a")).WantError(404, "NOT_FOUND")
}

// TestConsoleBridgeWithoutTarget checks that a bridge whose target does not respond is not shown
// as if it worked, and one that is disabled not as if it failed.
func TestConsoleBridgeWithoutTarget(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	v := visit(t, api, "viewer")
	v.Lacks(v.Want(v.Get(v.base+"bridges"), 200, "Not used"), "of 1 connected")
	set := func(enabled bool) {
		api.Root.Put(api.At("/bridges/mqtt-bridge/config"), object{"version": "v1", "connections": []object{{"name": "plant", "enabled": enabled, "connection": object{"url": "mqtt://127.0.0.1:1"}}}}).Want(204)
	}
	list := func() *apitest.Page {
		return v.Want(v.Fragment(v.base+"bridges", "list"), 200, "<span>Configured</span>", "0 of 1 connected")
	}
	set(false)
	v.Lacks(list(), `<span class="state bad">`, `<span class="state good">`)
	set(true)
	waitFor(t, "the failure", func() bool { return strings.Contains(list().Text, `<span class="state bad">`) })
	v.Lacks(list(), `<span class="state good">`)
}

// TestConsoleClusterWithoutReserve checks that a cluster that may lose no node is shown with a
// warning although all of its nodes are healthy.
func TestConsoleClusterWithoutReserve(t *testing.T) {
	t.Parallel()
	const warning = "No further node may be lost"
	for nodes, warns := range map[int]bool{2: true, 3: false} {
		g := newNodeFixture(t, nodes)
		made := g.create(nodes)
		b := g.Browser(apitest.RootEmail, apitest.RootPassword)
		for _, page := range []string{"/clusters", "/clusters/" + made.ID} {
			p := b.Want(b.Get(b.Project(page)), 200, "All nodes are healthy")
			if strings.Contains(p.Text, warning) != warns || strings.Contains(p.Text, `<span class="state warn">`) != warns {
				t.Errorf("%d nodes: %s has the warning: %v, want %v\n%s", nodes, page, !warns, warns, p.Text)
			}
		}
	}
}

// TestConsoleNothingSelected checks what the buttons of a selection do without one.
func TestConsoleNothingSelected(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	v := visit(t, api, "editor")
	for _, do := range []string{"ask-disconnect", "ask-end", "disconnect", "end"} {
		v.again("sessions", doing(do), 400, "No session was selected")
	}
	var jobs []object
	if api.Root.Get(api.At("/jobs")).Want(200).Decode(&jobs); len(jobs) > 0 {
		t.Errorf("jobs without a selection: %v", jobs)
	}
}

// TestConsoleNextPage checks links and choices of a project and of a client.
func TestConsoleNextPage(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	settings := c.page(c.Project("/settings"))
	if name, last := strings.Index(settings, `name="name"`), strings.Index(settings, "Delete project"); name < 0 || last < name {
		t.Errorf("the deletion is at %d, the name at %d", last, name)
	}
	tokens := c.Project("/tokens/new")
	wide := url.Values{"name": {"dashboard"}, "role": {"viewer"}, "type": {"unrestricted"}, "brokers": {api.Embedded}}
	c.Want(c.Post(tokens, wide), 400, "for the token to be restricted")
	wide.Set("type", "restricted")
	c.Want(c.Post(tokens, wide), 200, "Authorization: Bearer")
	c.has(c.at("client", "username", "admin"), "/sessions?filterTarget=username&amp;filterValue=admin", ">Check access</a>")
	var p struct{ ID string }
	api.Root.Post("/api/projects", object{"name": "plant"}).Want(200).Decode(&p)
	c.Lacks(c.Want(c.Get("/p/"+p.ID+"/tokens/new"), 200, `name="type" value="unrestricted"`), `name="brokers"`, "listed below")
	api.Root.Post("/api/projects/"+p.ID+"/brokers", object{"name": "b", "url": "mqtt://127.0.0.1:1"}).Want(200)
	c.has("/p/"+p.ID+"/delete", "Required, as", "the streams and bridges that this service runs for these brokers are deleted")
}

// TestConsolePasswordTwice checks that every form for a new password asks for it twice, but that
// for a new client, whose device proves it at once, and stores none if the two differ.
func TestConsolePasswordTwice(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/clients"), object{"username": "pump"}).Want(204)
	var u struct{ ID string }
	api.Root.Post("/api/users", object{"email": "ada@example.com", "password": apitest.RootPassword, "verified": true}).Want(200).Decode(&u)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	for _, f := range []struct {
		page, name string
		form       []string
	}{
		{c.at("clients/password", "username", "pump"), "password", []string{"do", "password"}},
		{"/users/new", "password", []string{"email", "bob@example.com"}},
		{"/users/" + u.ID, "password", []string{"email", "ada@example.com"}},
		{"/account", "new", []string{"do", "password", "current", apitest.RootPassword}},
	} {
		c.has(f.page, `name="`+f.name+`"`, `name="repeated"`)
		form := formOf(f.form)
		form.Set(f.name, "first password")
		form.Set("repeated", "second password")
		c.Want(c.Post(f.page, form), 400, "The two passwords differ.")
		form.Set("repeated", "first password")
		c.Want(c.Post(f.page, form), 200, `class="message good"`)
	}
}

// TestConsoleUnits checks the units of $SYS values and of retained messages, and that links in a
// table name their object.
func TestConsoleUnits(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	api.Root.Post(api.At("/messages"), object{"topic": "a", "payload": strings.Repeat("x", 2048), "qos": 1, "retain": true}).Want(204)
	c.has(c.at("retained"), `<td class="number">2.0 KiB</td>`, `aria-label="Delete: a"`)
	for topic, unit := range map[string]string{"$SYS/broker/bytes/received": ` ([KMG]i)?B`, "$SYS/broker/heap/current": ` ([KMG]i)?B`, "$SYS/broker/load/bytes/sent/1min": ` ([KMG]i)?B/min`, "$SYS/broker/load/messages/sent/1min": ` <span class="quiet">/min</span>`} {
		waitFor(t, topic, func() bool {
			return regexp.MustCompile(`<td>[0-9.,]+` + unit + `</td>`).MatchString(c.page(c.at("connection", "filter", topic)))
		})
	}
	c.Lacks(c.Get(c.at("connection", "filter", "clients/connected")), ` B</td>`)
	c.has("/users", "aria-label=\"Delete: ")
}
