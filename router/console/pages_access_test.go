package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// hostile is a name that must be shown, and must not act.
const hostile = "</script>\"><img src=x onerror=alert(1)>\u202e%c{{.}}\x00"

// records returns what a broker has, with name in every text: n objects of each kind, the
// first of which refers to all others.
func records(name string, n int) map[string]any {
	type object = map[string]any
	var clients, groups, roles, denials []any
	var roleRefs, groupRefs, members []any
	for range n {
		roleRefs = append(roleRefs, object{"rolename": name, "priority": 3})
		groupRefs = append(groupRefs, object{"groupname": name})
		members = append(members, object{"username": name})
	}
	for i := range n {
		rules := []object{{"acltype": "publishClientSend", "topic": name, "priority": i, "allow": true}, {"acltype": "subscribePattern", "topic": name, "priority": 0, "allow": false}}
		clients = append(clients, object{"username": name, "clientid": name, "textname": name, "textdescription": name, "disabled": i%2 == 1, "roles": roleRefs, "groups": groupRefs, "connections": []object{{"address": "10.0.0.1"}}})
		groups = append(groups, object{"groupname": name, "textname": name, "textdescription": name, "clients": members, "roles": roleRefs})
		roles = append(roles, object{"rolename": name, "textname": name, "textdescription": name, "allowwildcardsubs": i%2 == 1, "acls": rules})
		denials = append(denials, object{"at": "2026-01-31T12:00:00Z", "clientid": name, "username": name, "address": "10.0.0.1", "action": "publish", "topic": name, "reason": name})
	}
	verdict := object{"allowed": false, "acltype": "publishClientSend", "reason": name, "source": "role", "rolename": name, "via": "client",
		"acl": object{"acltype": "publishClientSend", "topic": name, "priority": 0, "allow": true}}
	return map[string]any{"listClients": clients, "listGroups": groups, "listRoles": roles, "listDenials": denials, "checkAccess": verdict, "getAnonymousGroup": object{"groupname": name},
		"getDefaultACLAccess": object{"acls": [][]object{{{"acltype": "publishClientSend", "allow": true}}}}, "exportAccess": object{}}
}

// fakeService is the API with the given records; with a failure, every operation but
// those of the frame fails with it.
func fakeService(role string, records map[string]any, failure *Response) Call {
	return func(_ *http.Request, operation string, _ map[string]string, query string, _ []byte) *Response {
		ok := func(v any, total string) *Response {
			b, _ := json.Marshal(v)
			return &Response{Status: 200, Header: http.Header{"X-Total-Count": {total}}, Body: b}
		}
		attributeValues, _ := url.ParseQuery(query)
		list, isList := records[operation].([]any)
		switch {
		case operation == "me":
			return ok(map[string]any{"id": "1", "name": "Ann", "projects": []map[string]any{{"id": "1", "role": role}}}, "")
		case operation == "getProject":
			return ok(map[string]any{"id": "1", "name": "plant"}, "")
		case operation == "getBroker":
			return ok(map[string]any{"id": "1", "name": "b", "status": map[string]any{"missing": []map[string]any{{"feature": "dynamic-security", "reason": "it has no plugin", "remedy": "add:\nplugin x.so"}}}}, "")
		case failure != nil:
			return failure
		case isList && attributeValues.Get("verbose") == "false":
			return ok([]string{"name"}, "1")
		case isList && attributeValues.Get("filterMode") == "equals":
			return ok(list[:min(1, len(list))], "1")
		case isList:
			return ok(list, "900")
		}
		return ok(records[operation], "0")
	}
}

// showAccess requests a page of access control, or a part of it.
func (c *Console) showAccess(p *page, name, part, language string) *httptest.ResponseRecorder {
	path := strings.NewReplacer("{projectId}", "1", "{brokerId}", "1").Replace(p.path)
	query := url.Values{"username": {name}, "groupname": {name}, "rolename": {name}, "clientid": {name}, "action": {"publish"}, "topic": {name}, "filterValue": {name}, "search": {""}}
	r := httptest.NewRequest(http.MethodGet, path+"?"+query.Encode(), nil)
	r.Header.Set("Accept-Language", language)
	if part != "" {
		r.Header.Set("X-Fragment", part)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// TestAccessPages renders every page, whole and in parts, for each role and language, with
// no, one and many objects, and with hostile names.
func TestAccessPages(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		title, name, role, language string
		n                           int
	}{
		{"none", "x", "editor", "en", 0}, {"one", "meter-7", "admin", "de", 1}, {"many", "meter", "editor", "fr", 50},
		{"hostile", hostile, "admin", "es", 3}, {"hostile to a viewer", hostile, "viewer", "en", 3},
	} {
		c := newTestConsole(t, fakeService(x.role, records(x.name, x.n), nil))
		for _, p := range accessPages() {
			t.Run(x.title+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				for _, part := range append([]string{"", "content"}, p.fragments...) {
					w := c.showAccess(c.pageNamed(p.name), x.name, part, x.language)
					checkAccessPage(t, p, w, x.n, x.role)
					if w.Code == http.StatusNotFound {
						break // its parts do not exist, either
					}
				}
			})
		}
	}
}

// fieldValues are the values of fields.
var fieldValues = regexp.MustCompile(`value="[^"]*"|(?s)<textarea.*?</textarea>`)

func checkAccessPage(t *testing.T, p *page, w *httptest.ResponseRecorder, n int, role string) {
	t.Helper()
	text := w.Body.String()
	want := 200
	if n == 0 && strings.Contains(text, "NOT_FOUND") {
		want = 404
	}
	if roleOf(role) < p.role {
		want = 403
	}
	if w.Code != want {
		t.Fatalf("status %d\n%s", w.Code, text)
	}
	text = fieldValues.ReplaceAllString(text, "") // the value of a field is what it is
	for _, bad := range []string{"<img", "</script>\"", "\u202e", "\x00", "ZgotmplZ", "%!", "<no value>", "nil"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if role == "viewer" && strings.Contains(text, `name="do"`) && p.role == viewer {
		t.Error("a viewer is offered an action")
	}
}

// TestAccessPagesOfABrokerWithoutIt: the pages that an operator opens from the navigation
// show why, and the lines that would change it.
func TestAccessPagesOfABrokerWithoutIt(t *testing.T) {
	t.Parallel()
	missing := &Response{Status: 405, Header: http.Header{}, Body: []byte(`{"code":"NOT_SUPPORTED","message":"it has no plugin: add"}`)}
	c := newTestConsole(t, fakeService("admin", nil, missing))
	for _, name := range []string{"clients", "client", "client-new", "groups", "group", "group-new", "roles", "role", "default-access", "check", "import"} {
		w := c.showAccess(c.pageNamed(name), "x", "", "en")
		text := w.Body.String()
		if w.Code != 200 || !strings.Contains(text, "<p>it has no plugin</p>") || !strings.Contains(text, "<code>plugin x.so") {
			t.Errorf("%s: %d\n%s", name, w.Code, text)
		}
	}
}

// TestAccessPagesOfABrokerThatFails: no page is empty or broken while the broker is away.
func TestAccessPagesOfABrokerThatFails(t *testing.T) {
	t.Parallel()
	away := &Response{Status: 503, Header: http.Header{}, Body: []byte(`{"code":"BROKER_UNAVAILABLE","message":"the broker is not connected"}`)}
	c := newTestConsole(t, fakeService("admin", nil, away))
	for _, p := range accessPages() {
		if p.name == "role-new" {
			continue // it asks the broker for nothing
		}
		w := c.showAccess(c.pageNamed(p.name), "x", "", "en")
		if text := w.Body.String(); !strings.Contains(text, "the broker is not connected") {
			t.Errorf("%s: %d\n%s", p.name, w.Code, text)
		}
	}
}

// TestAccessPagesAreSmall renders the lists with 50 rows, and the editor with as many
// rules as a table has.
func TestAccessPagesAreSmall(t *testing.T) {
	t.Parallel()
	all := records("meter-4711", 50)
	for _, client := range all["listClients"].([]any) {
		client.(map[string]any)["roles"], client.(map[string]any)["groups"] = []any{}, []any{}
	}
	c := newTestConsole(t, fakeService("admin", all, nil))
	for _, name := range []string{"clients", "roles", "denials"} {
		text := c.showAccess(c.pageNamed(name), "x", "", "en").Body.String()
		if elements := strings.Count(text, "<") - strings.Count(text, "</"); elements > 1500 || len(text) > 60<<10 {
			t.Errorf("%s: %d elements, %d bytes", name, elements, len(text))
		}
	}
}

// TestAccessActionsNeedTheirRole posts every action as a viewer.
func TestAccessActionsNeedTheirRole(t *testing.T) {
	t.Parallel()
	called := func(r *http.Request, operation string, params map[string]string, query string, body []byte) *Response {
		if body != nil {
			t.Errorf("%s was called with %s", operation, body)
		}
		return fakeService("viewer", records("x", 1), nil)(r, operation, params, query, nil)
	}
	c := newTestConsole(t, called)
	for _, p := range accessPages() {
		for do := range p.actions {
			r := httptest.NewRequest(http.MethodPost, strings.NewReplacer("{projectId}", "1", "{brokerId}", "1").Replace(p.path)+"?username=x&groupname=x&rolename=x",
				strings.NewReader(url.Values{"do": {do}, "step": {"save"}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s %s: status %d", p.name, do, w.Code)
			}
		}
	}
}
