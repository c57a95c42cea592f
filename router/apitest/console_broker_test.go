package apitest_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// visitor looks at the pages of a broker.
type visitor struct {
	*apitest.Browser
	t    *testing.T
	base string // path of the pages, below /ui
}

// visit returns a visitor of the embedded broker's pages, a new user with a role.
func visit(t *testing.T, api *apitest.API, role string) *visitor {
	t.Helper()
	return &visitor{Browser: api.Member(role), t: t, base: "/p/" + api.Project + "/b/" + api.Embedded + "/"}
}

// page returns the text of a page. No page may contain hostile text as it is.
func (v *visitor) page(page string, want ...string) string {
	v.t.Helper()
	return v.harmless(v.Want(v.Get(v.base+page), 200, append(want, "</html>")...))
}

// typed is what a form holds: it is sent back as it is, so it is not shown with marks.
var typed = regexp.MustCompile(`(?s)value="[^"]*"|<textarea[^>]*>[^<]*`)

func (v *visitor) harmless(p *apitest.Page) string {
	v.t.Helper()
	v.Lacks(p, "<script>alert", "<img", "\x00", "\x01")
	if strings.Contains(p.Text, "\u202e") { // the expression takes longer than the page
		v.Lacks(&apitest.Page{Path: p.Path, Text: typed.ReplaceAllString(p.Text, "")}, "\u202e")
	}
	return p.Text
}

// post sends a form, which leads to another page.
func (v *visitor) post(page string, form url.Values, want ...string) string {
	v.t.Helper()
	p := v.Want(v.Post(v.base+page, form), 200, want...)
	if p.Path == v.base+page && !strings.Contains(p.Path, "done=") {
		v.t.Errorf("POST %s leads nowhere:\n%s", page, p.Text)
	}
	return v.harmless(p)
}

// again sends a form, after which the same page is shown with a status.
func (v *visitor) again(page string, form url.Values, status int, want ...string) string {
	v.t.Helper()
	return v.harmless(v.Want(v.Post(v.base+page, form), status, want...))
}

// doing returns a form that selects an action.
func doing(action string, pairs ...string) url.Values {
	form := url.Values{"do": {action}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func withQuery(page string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return page + "?" + query.Encode()
}

// Hostile names and payloads.
const (
	hostileID      = "<script>alert(1)</script>\"'&?#%\u202eid"
	hostileTopic   = "plant/<script>alert(1)</script>\"'&?%\u202e/x"
	hostilePayload = "{\"a\":\"<script>alert(1)</script>\u202e<img src=x>\"}"
)

// TestConsoleConnection changes and deletes a connection whose broker does not exist.
func TestConsoleConnection(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	embedded := visit(t, api, "admin")
	if text := embedded.page("connection", "This is the embedded broker", "$SYS/broker/version", "Access control"); strings.Contains(text, "connection/edit") {
		t.Errorf("the connection of the embedded broker can be edited:\n%s", text)
	}
	embedded.page("connection?filter=uptime", "$SYS/broker/uptime")
	embedded.page("listeners", "Not encrypted")
	id := addBroker(t, api, object{"name": hostileID, "url": "mqtt://127.0.0.1:1", "username": "u", "password": "secret-password", "description": "<img src=x>"})
	waitFor(t, "the failure", func() bool { return brokerRecord(api, id).Status.Error != "" })
	v := &visitor{embedded.Browser, t, "/p/" + api.Project + "/b/" + id + "/"}
	v.page("overview", "The broker is not connected", "connection")
	v.page("connection", "&lt;script&gt;", "connection/edit", "connection/delete", "Stored, never shown")
	edit := v.page("connection/edit", `value="mqtt://127.0.0.1:1"`, `value="test"`, "clear-password")
	if strings.Contains(edit, "secret-password") {
		t.Error("the form contains the password")
	}
	same := []string{"name", "new", "url", "mqtt://127.0.0.1:1", "username", "u", "verify_ca_cert", "true"}
	v.again("connection/edit", doing("save", "name", "", "url", "mqtt://x", "username", "u"), 400, `name="name" value="" autocomplete="off" required aria-describedby="f-save-name-error" aria-invalid="true"`)
	v.again("connection/edit", doing("save", "name", "n", "url", "http://x", "username", "u"), 400, `value="http://x"`, `aria-invalid="true"`)
	v.again("connection/edit", doing("test", same...), 200, "message bad")
	v.post("connection/edit", doing("save", append(same, "description", "", "ca_cert", "")...))
	if r := brokerRecord(api, id); r.Name != "new" || r.Description != "" || !r.HasPassword || r.TopicTree || *r.Username != "u" {
		t.Errorf("after the change: %+v", r)
	}
	v.post("connection/edit", doing("save", append(same, "username", "", "clear-password", "true", "topictree", "true")...))
	if r := brokerRecord(api, id); r.HasPassword || r.Username != nil || !r.TopicTree {
		t.Errorf("after the password was removed: %+v", r)
	}
	for _, page := range []string{"sessions", "subscriptions", "bans", "topics", "retained", "ttl", "listeners", "messages"} {
		v.page(page)
	}
	for page, action := range map[string]string{"clients": "/clients/new", "groups": "/groups/new", "roles": "/roles/new", "clients/new": `name="username"`,
		"groups/new": `name="groupname"`, "messages": `name="payload"`} {
		p := v.Want(v.Get(v.base+page), 200, "Actions that change it are available again")
		v.Lacks(p, action)
	}
	v.page("connection/delete", "Streams", "mqtt://127.0.0.1:1")
	v.post("connection/delete", doing("delete"))
	api.Root.Get(api.BrokerAt(id, "")).WantError(404, "NOT_FOUND")
}

// TestConsoleBrokerOfViewer: a viewer sees the pages, but no action, and is refused if it
// sends one all the same.
func TestConsoleBrokerOfViewer(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, apitest.ViewerReadOnly)
	d := join(t, api, 5, "c", asAdmin, persistent)
	d.Subscribe(1, "a/#")
	api.Root.Post(api.At("/messages"), object{"topic": "a/b", "payload": "kept", "retain": true}).Want(204)
	api.Root.Post(api.At("/bans"), ban("clientid", "other")).Want(204)
	v := visit(t, api, "viewer")
	for _, page := range []string{"overview", "sessions", "session?clientid=c", "subscriptions", "bans", "topics", "topics/all", "retained",
		"retained/message?topic=a/b", "messages", "ttl", "listeners", "connection"} {
		text := v.page(page)
		_, text, _ = strings.Cut(text, "<main")
		for _, action := range []string{"session/disconnect", "/end?", "/unsubscribe", "/subscribe?", "bans/new", "bans/lift", "/delete", "messages?topic", "/edit", "<form method=\"post\""} {
			if strings.Contains(text, action) {
				t.Errorf("%s offers %s:\n%s", page, action, text)
			}
		}
	}
	for page, form := range map[string]url.Values{
		"session/disconnect?clientid=c":              doing("disconnect"),
		"session/end?clientid=c":                     doing("end"),
		"session/subscribe?clientid=c":               doing("subscribe", "topic", "x", "qos", "0"),
		"session/unsubscribe?clientid=c&topic=a/%23": doing("unsubscribe"),
		"bans/new":                            doing("ban", "kind", "clientid", "value", "c"),
		"bans/lift?kind=clientid&value=other": doing("lift"),
		"retained/delete?topic=a/b":           doing("delete"),
		"retained/delete-matching?filter=%23": doing("delete", "count", "1"),
		"messages":                            doing("publish", "topic", "a/b", "payload", "new", "encoding", "text", "qos", "0", "retain", "true"),
		"ttl":                                 doing("set", "ttl_sec", "1"),
		"connection/edit":                     doing("save", "name", "x", "url", "mqtt://x"),
	} {
		v.again(page, form, 403)
	}
	if got := detail(api, "c"); !got.Connected || len(got.Subscriptions) != 1 {
		t.Errorf("the session: %+v", got)
	}
	if got := strings.TrimSpace(string(api.Root.Get(api.At("/messages/retained?topic=a/b")).Want(200).Body)); !strings.Contains(got, "kept") {
		t.Errorf("the retained message: %s", got)
	}
	if len(bansOf(api)) != 1 {
		t.Error("the bans changed")
	}
	wantTTL(t, api.Root, api.At(""), 60)
}
