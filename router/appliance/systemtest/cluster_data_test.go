package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestClusterDataSurvivesItsFirstMachine kills the machine that has created a cluster which shares the data
// of the platform. The others serve the same users, tokens and projects, also the console, and change them;
// when the machine is back, it has what was changed meanwhile.
func TestClusterDataSurvivesItsFirstMachine(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	for id := range 3 {
		m := newMachine(t, id+1)
		m.shareData = true
		c.machines = append(c.machines, m)
	}
	startAll(t, c.machines...)
	first, second, third := c.machines[0], c.machines[1], c.machines[2]
	c.manageFrom(t, first, second, third)
	c.create(t)
	project, session := first.api.project, first.api.token
	token := newToken(t, first.api)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the token and the session", m.id), func() bool {
			return m.reads(t, token, project) && m.reads(t, session, project)
		})
		m.api.token, m.api.project = session, project
	}
	const password = "another correct horse"
	second.change(t, "POST", "/api/users", object{"email": "before@example.com", "password": password})

	first.run.Kill()
	began := time.Now()
	third.change(t, "POST", "/api/projects", object{"name": "meanwhile"})
	t.Logf("changed %v after the kill", since(began))
	for _, m := range []*machine{second, third} {
		suite.WaitFor(t, "a user signs in", func() bool { return m.signsIn(t, "before@example.com", password) })
		suite.WaitFor(t, "a user signs in at the console", func() bool { return m.signsInAtConsole(t) })
		suite.WaitFor(t, "a change is at the other node", func() bool { return slices.Contains(m.projects(t), "meanwhile") })
		if !m.reads(t, token, project) {
			t.Errorf("node %d does not know the token", m.id)
		}
	}

	first.start(t)
	suite.WaitFor(t, "the first machine has what was changed", func() bool {
		return first.reads(t, session, project) && slices.Contains(first.projects(t), "meanwhile")
	})
	first.change(t, "POST", "/api/projects", object{"name": "afterwards"})
	for _, m := range c.machines {
		suite.WaitFor(t, "all have the last change", func() bool { return slices.Contains(m.projects(t), "afterwards") })
	}
}

// newToken returns a token for the default project.
func newToken(t testing.TB, c *caller) string {
	t.Helper()
	var made struct{ Token string }
	c.must(t, "POST", c.inProject("/tokens"), object{"name": "all", "role": "admin", "type": "unrestricted", "brokers": []string{}}, &made)
	return made.Token
}

// reads reports whether a machine shows a project to the owner of a credential.
func (m *machine) reads(t testing.TB, credential, project string) bool {
	t.Helper()
	c := *m.api
	c.token = credential
	return c.status(t, "GET", "/api/projects/"+project+"/brokers", nil) == http.StatusOK
}

// change makes a change through a machine, as soon as the cluster has a leader.
func (m *machine) change(t testing.TB, method, path string, body any) (answer []byte) {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("%s %s is stored", method, path), func() bool {
		status, text, err := m.api.do(t.Context(), method, path, body)
		if err != nil || status >= 300 && status != http.StatusServiceUnavailable {
			t.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
		}
		answer = text
		return status < 300
	})
	return answer
}

// projects returns the names of the projects at a machine.
func (m *machine) projects(t testing.TB) (names []string) {
	t.Helper()
	var all []struct{ Name string }
	m.api.must(t, "GET", "/api/projects", nil, &all)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// signsIn reports whether a user can log in at a machine.
func (m *machine) signsIn(t testing.TB, email, password string) bool {
	t.Helper()
	c := &caller{url: m.api.url, client: m.api.client}
	status, answer, err := c.do(t.Context(), "POST", "/api/auth/login", object{"email": email, "password": password})
	var session struct{ Token string }
	return err == nil && status == http.StatusOK && json.Unmarshal(answer, &session) == nil && session.Token != ""
}

// signsInAtConsole reports whether the administrator is shown the first page of the console after the form
// of the log-in.
func (m *machine) signsInAtConsole(t testing.TB) bool {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	client.Jar = jar
	resp, err := client.PostForm(m.api.url+"/ui/login", url.Values{"email": {rootEmail}, "password": {rootPassword}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && !strings.HasSuffix(resp.Request.URL.Path, "/ui/login")
}
