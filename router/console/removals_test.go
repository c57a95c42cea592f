package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// recorder passes calls on, and keeps the bodies of those that change something.
type recorder struct {
	Call
	bodies map[string]string
}

func (r *recorder) call(req *http.Request, operation string, params map[string]string, query string, body []byte) *Response {
	if body != nil {
		r.bodies[operation] = string(body)
		return success("null")
	}
	return r.Call(req, operation, params, query, body)
}

// request sends a request to a page of the console: a form, if there is one.
func (c *Console) request(path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if form != nil {
		r = httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// TestRemovals_ask_first takes roles, groups and members away: each page leads to a question,
// which states whose connections are closed, and only its answer changes something.
func TestRemovals_ask_first(t *testing.T) {
	t.Parallel()
	const broker = "/ui/p/1/b/1/"
	for name, x := range map[string]struct {
		from, to, do, operation, sent string
		wants                         []string
	}{
		"role of a client": {"client?username=x", "clients/remove?username=x&rolename=x", "remove_role", "modifyClient", `{"roles":[],"username":"x"}`,
			[]string{"Remove role x from client x", "1 connection of the client is closed", "no longer apply to the client"}},
		"group of a client": {"client?username=x", "clients/remove?username=x&groupname=x", "remove_group", "modifyClient", `{"groups":[],"username":"x"}`,
			[]string{"Remove client x from group x", "1 connection of the client is closed", "leaves the group", "x, x"}},
		"role of a group": {"group?groupname=x", "groups/remove?groupname=x&rolename=x", "remove_role", "modifyGroup", `{"groupname":"x","roles":[]}`,
			[]string{"Remove role x from group x", "connections of all members are closed", "2 members of the group", "without a username"}},
		"member of a group": {"group?groupname=x", "groups/remove?groupname=x&username=x", "remove_member", "modifyClient", `{"groups":[],"username":"x"}`,
			[]string{"Remove client x from group x", "1 connection of the client is closed", "leaves the group"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &recorder{fakeService("editor", records("x", 2), nil), map[string]string{}}
			c := newTestConsole(t, service.call)
			page := c.request(broker+x.from, nil).Body.String()
			if strings.Contains(page, `value="remove_`) || !strings.Contains(page, strings.ReplaceAll(x.to, "&", "&amp;")+`" data-dialog`) {
				t.Errorf("the page acts at once, or does not ask:\n%s", page)
			}
			if w := c.request(broker+x.from, url.Values{"do": {x.do}, "rolename": {"x"}, "groupname": {"x"}, "username": {"x"}}); w.Code != http.StatusBadRequest {
				t.Errorf("the page acts with the status %d", w.Code)
			}
			asks := c.request(broker+x.to, nil).Body.String()
			for _, text := range append(x.wants, `class="danger"`, "data-cancel") {
				if !strings.Contains(asks, text) {
					t.Errorf("the question lacks %q:\n%s", text, asks)
				}
			}
			if len(service.bodies) > 0 {
				t.Fatalf("changed before the answer: %v", service.bodies)
			}
			if w := c.request(broker+x.to, url.Values{"do": {x.do}}); w.Code != http.StatusSeeOther || service.bodies[x.operation] != x.sent {
				t.Errorf("status %d, sent %v", w.Code, service.bodies)
			}
		})
	}
}

// TestRemovals_of_nothing opens the question for what was removed meanwhile, which would close
// connections for nothing.
func TestRemovals_of_nothing(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, fakeService("editor", records("x", 1), nil))
	for _, page := range []string{"clients/remove?username=x&rolename=gone", "clients/remove?username=x&groupname=gone", "groups/remove?groupname=x&rolename=gone"} {
		if w := c.request("/ui/p/1/b/1/"+page, nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s: status %d\n%s", page, w.Code, w.Body)
		}
	}
}

// TestRemovals_unknown_connections takes a role from a client of a broker that does not report
// connections.
func TestRemovals_unknown_connections(t *testing.T) {
	t.Parallel()
	all := records("x", 1)
	delete(all["listClients"].([]any)[0].(map[string]any), "connections")
	w := newTestConsole(t, fakeService("editor", all, nil)).request("/ui/p/1/b/1/clients/remove?username=x&rolename=x", nil)
	if !strings.Contains(w.Body.String(), "If the client is connected, its connections are closed") {
		t.Errorf("status %d\n%s", w.Code, w.Body)
	}
}

// TestMembers_platform_administrators shows a member who acts as admin everywhere, to another
// platform administrator and to an admin of the project, who does not know it.
func TestMembers_platform_administrators(t *testing.T) {
	t.Parallel()
	responses := map[string]*Response{"listAdmins": success(`{"total":1,"roots":[{"id":"ada"}]}`),
		"listMembers": {Status: http.StatusOK, Header: http.Header{"X-Total-Count": {"2"}}, Body: []byte(`[{"userId":"ada","name":"Ada","role":"editor"},{"userId":"bob","name":"Bob","role":"editor"}]`)},
		"getProject":  success(`{"owner":{"userId":"1"}}`)}
	const acts = "Platform administrator: acts as admin here"
	root := newTestConsole(t, (&calledService{responses: responses}).call)
	if text := root.request("/ui/p/1/members", nil).Body.String(); strings.Count(text, acts) != 1 || strings.Index(text, acts) > strings.Index(text, "Bob") {
		t.Errorf("not one member is a platform administrator:\n%s", text)
	}
	refusing := map[string]*Response{"listAdmins": refusal(http.StatusForbidden, "FORBIDDEN"), "me": success(`{"id":"eve","name":"Eve","projects":[{"id":"1","role":"admin"}]}`)}
	admin := newTestConsole(t, (&calledService{responses: refusing}).call)
	for _, x := range []struct {
		console   *Console
		user      string
		has, lack string
	}{
		{root, "ada", "can still use this project with all rights", "no longer"},
		{root, "1", "can still use this project with all rights", "your own"},
		{root, "bob", "can no longer use this project, and", "still use"},
		{admin, "ada", "no longer use this project, except as a platform administrator", "still use"},
		{admin, "eve", "your own membership", "except"},
	} {
		text := x.console.request("/ui/p/1/members/remove?name=N&user="+x.user, nil).Body.String()
		if !strings.Contains(text, x.has) || strings.Contains(text, x.lack) {
			t.Errorf("%s: want %q, not %q:\n%s", x.user, x.has, x.lack, text)
		}
	}
}
