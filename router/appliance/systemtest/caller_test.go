package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"signalbox/scripts/suite"
)

type object = map[string]any

// caller calls the API of a running process.
type caller struct {
	url      string
	token    string
	project  string // id of the default project
	embedded string // id of the embedded broker, "" if there is none
	client   *http.Client
}

// signIn creates a session.
func signIn(t testing.TB, p *service, email, password string) *caller {
	t.Helper()
	c := &caller{url: p.API, client: newClient(t)}
	var session struct{ Token string }
	c.must(t, "POST", "/api/auth/login", object{"email": email, "password": password}, &session)
	c.token = session.Token
	return c
}

// newClient returns a client whose connections end with the test.
func newClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: suite.HangLimit}
}

// root signs the administrator in if the passwords are configured.
func root(t testing.TB, p *service) *caller {
	t.Helper()
	c := signIn(t, p, rootEmail, rootPassword)
	c.find(t)
	return c
}

// find looks up the default project and its embedded broker.
func (c *caller) find(t testing.TB) {
	t.Helper()
	var projects []struct{ ID, Name string }
	c.must(t, "GET", "/api/projects", nil, &projects)
	for _, p := range projects {
		if p.Name == "default" {
			c.project = p.ID
		}
	}
	var brokers []struct{ ID, Type string }
	c.must(t, "GET", "/api/projects/"+c.project+"/brokers", nil, &brokers)
	for _, b := range brokers {
		if b.Type == "on-premise-setup" {
			c.embedded = b.ID
		}
	}
}

// at returns a path below the embedded broker.
func (c *caller) at(path string) string {
	return "/api/projects/" + c.project + "/brokers/" + c.embedded + path
}

// do makes one call; status is 0 if there was no complete response.
func (c *caller) do(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	status, _, answer, err = c.request(ctx, "", method, path, body)
	return status, answer, err
}

// request is do with an id of the request, "" for none, which also returns the header of the response.
func (c *caller) request(ctx context.Context, id, method, path string, body any) (status int, header http.Header, answer []byte, err error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, nil, err
		}
		sent = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if id != "" {
		r.Header.Set("X-Request-Id", id)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	if answer, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, nil, err
	}
	return res.StatusCode, res.Header, answer, nil
}

// must calls and fails the test unless the response is a success.
func (c *caller) must(t testing.TB, method, path string, body, into any) {
	t.Helper()
	status, answer, err := c.do(t.Context(), method, path, body)
	if err != nil || status >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, status, answer, err)
	}
	if into != nil {
		if err := json.Unmarshal(answer, into); err != nil {
			t.Fatalf("%s %s: %s: %v", method, path, answer, err)
		}
	}
}

// status calls and returns the status only.
func (c *caller) status(t testing.TB, method, path string, body any) int {
	t.Helper()
	status, _, err := c.do(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return status
}

// text returns the body of the response to GET.
func (c *caller) text(t testing.TB, path string) string {
	t.Helper()
	var raw json.RawMessage
	c.must(t, "GET", path, nil, &raw)
	return string(raw)
}

// names returns the names of the clients, groups or roles of the embedded broker.
func (c *caller) names(t testing.TB, kind string) []string {
	t.Helper()
	var names []string
	c.must(t, "GET", c.at("/"+kind+"?verbose=false"), nil, &names)
	slices.Sort(names)
	return names
}

// sensor creates a role, a group and a client that may publish to plant/# and
// subscribe to cmd/#.
func (c *caller) sensor(t testing.TB, username, password string) {
	t.Helper()
	c.must(t, "POST", c.at("/roles"), object{"rolename": "sensor"}, nil)
	c.must(t, "PUT", c.at("/roles"), object{"rolename": "sensor", "acls": []object{
		{"acltype": "publishClientSend", "topic": "plant/#", "priority": 0, "allow": true},
		{"acltype": "subscribePattern", "topic": "cmd/#", "priority": 0, "allow": true}}}, nil)
	c.must(t, "POST", c.at("/groups"), object{"groupname": "pumps"}, nil)
	c.must(t, "PUT", c.at("/groups"), object{"groupname": "pumps", "roles": []object{{"rolename": "sensor"}}}, nil)
	c.must(t, "POST", c.at("/clients"), object{"username": username, "password": password,
		"groups": []object{{"groupname": "pumps"}}}, nil)
}

// lists returns the paths of what is stored, and shown without what a restart may change.
func (c *caller) lists() []string {
	return []string{"/api/users", "/api/users/admins", "/api/projects", c.inProject(""), c.inProject("/members"),
		c.at("/clients"), c.at("/groups"), c.at("/roles"), c.at("/acldefault")}
}

// describe returns what the API shows of the stored state, without what a restart may
// change.
func (c *caller) describe(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, path := range c.lists() {
		fmt.Fprintf(&all, "%s\n%s\n", path, c.text(t, path))
	}
	return all.String()
}
