package main

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// wantDiff checks what diff prints of a file, which is "" if nothing is to change.
func (u *terminal) wantDiff(text, want string) {
	u.t.Helper()
	if want == "" {
		want = "there is nothing to change\n"
	}
	if got := u.done("diff", "-f", u.file("changes.yaml", text)); got != want {
		u.t.Errorf("diff: %q, want %q", got, want)
	}
}

// TestDiffOfBridgeSecrets declares secrets of a bridge: by reference, plainly, and by a reference where the
// service shows the value. A secret cannot be compared, so it is no difference.
func TestDiffOfBridgeSecrets(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.env = append(u.env, "HOOK=hush", "PERSON=u")
	file := func(url, username, password string) string {
		return fmt.Sprintf("version: 1\nprojects: [{name: default, brokers: [{name: embedded, bridges: {http-bridge: {version: v1, connections: [{name: out, enabled: false, connection: {url: %s, credentials: {username: %s, password: %s}}}]}}}]}]\n", url, username, password)
	}
	const target, update = "http://127.0.0.1:1/in", "update bridge http-bridge (default/embedded): configuration\n"
	u.done("apply", "-f", u.file("plain.yaml", file(target, "u", "hush")))
	u.wantDiff(file(target, "u", "hush"), "")
	u.wantDiff(file(target, "u", "other"), "")
	u.wantDiff(file(target, "u", "{$env: HOOK}"), "")
	u.wantDiff(file(target, "u", "{$env: UNSET}"), "")
	u.wantDiff(file(target, "{$env: PERSON}", "hush"), "")
	u.wantDiff(file(target, "{$env: UNSET}", "hush"), "")
	u.wantDiff(file(target, "{$env: HOOK}", "hush"), update)
	u.wantDiff(file(target, "v", "hush"), update)
	u.wantDiff(file(target+"/2", "u", "{$env: HOOK}"), update)
}

// TestApplyClearsAConnection declares members of a connection as null, which clears them, and leaves them
// out, which does not.
func TestApplyClearsAConnection(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	pair := brokertest.SelfSigned(t, brokertest.CertOptions{})
	u.env = append(u.env, "P=secret", "KEY="+string(pair.Key))
	file := func(members string) string {
		return "version: 1\nprojects: [{name: default, brokers: [{name: far, url: 'mqtts://127.0.0.1:1'" + members + "}]}]\n"
	}
	pem := fmt.Sprintf("%q", pair.Cert)
	full := ", username: u, password: {env: P}, ca_cert: " + pem + ", client_cert: " + pem + ", client_key: {env: KEY}"
	u.done("apply", "-f", u.file("full.yaml", file(full)))
	u.wantDiff(file(""), "")
	cleared := file(", username: null, password: null, ca_cert: null, client_cert: null, client_key: null, server_fingerprint: null")
	u.wantDiff(cleared, "update broker far (default): username, password, ca_cert, client_cert, client_key\nwhat is in default/far is compared after that\n")
	u.done("apply", "-f", u.file("cleared.yaml", cleared))
	u.wantDiff(cleared, "")
	got := u.done("broker", "get", "far", "-o", "json")
	if strings.Contains(got, "BEGIN") || strings.Contains(got, `"username":"u"`) || strings.Contains(got, `"hasPassword":true`) {
		t.Errorf("the connection has %s", got)
	}
	u.refused(2, "username: must be of type", "apply", "-f", u.file("bad.yaml", file(", username: 7")))
	u.refused(2, "password: must be an object", "apply", "-f", u.file("bad.yaml", file(", password: p")))
}

// TestPruneKnowsTheService applies a file to one service, and prunes another one, and another broker of the same
// name: what was created elsewhere is not what is deleted there.
func TestPruneKnowsTheService(t *testing.T) {
	t.Parallel()
	u, other := newTerminal(t), newTerminal(t)
	one, two := brokertest.Mosquitto(t), brokertest.Mosquitto(t)
	u.env = append(u.env, "ONE="+string(one.AdminPassword), "TWO="+string(two.AdminPassword))
	file := func(url, variable, roles string) string {
		return u.file("site.yaml", fmt.Sprintf("version: 1\nprojects: [{name: default, brokers: [{name: embedded, roles: [%s]}, {name: line, url: %q, username: admin, password: {env: %s}, roles: [%[1]s]}]}]\n", roles, url, variable))
	}
	u.done("apply", "-f", file(one.URL, "ONE", "{rolename: r}"))
	embedded := other.file("site.yaml", "version: 1\nprojects: [{name: default, brokers: [{name: embedded, roles: []}]}]\n")
	other.done("role", "create", "r", "--broker", "embedded", "--project", "default")
	if got := other.done("diff", "-f", embedded, "--prune", "--state", u.dir+"/site.yaml.created.json"); strings.Contains(got, "delete") {
		t.Errorf("of another service: %s", got)
	}
	if got := u.done("diff", "-f", file(one.URL, "ONE", ""), "--prune"); strings.Count(got, "delete role r ") != 2 {
		t.Errorf("of the same service: %s", got)
	}
	u.done("apply", "-f", file(one.URL, "ONE", ""), "--prune", "--yes")
	rows := u.done("audit", "list", "--operation", "deleteRole", "-o", "jsonl")
	if strings.Count(rows, `"broker_id":"`) != 2 {
		t.Errorf("in the audit log: %s", rows)
	}
	u.done("apply", "-f", file(one.URL, "ONE", "{rolename: r}"))
	// The broker moves to another server, where a person has a role of that name.
	u.done("apply", "-f", u.file("moved.yaml", "version: 1\nprojects: [{name: default, brokers: [{name: line, url: '"+two.URL+"', username: admin, password: {env: TWO}, roles: []}]}]\n"))
	u.done("role", "create", "r", "--broker", "line", "--project", "default")
	if got := u.done("diff", "-f", file(two.URL, "TWO", ""), "--prune"); strings.Count(got, "delete role r ") != 1 || !strings.Contains(got, "delete role r (default/embedded)") {
		t.Errorf("at another server: %s", got)
	}
	old := u.file("old.json", `{"version": 1, "created": [["default", "embedded", "role", "r"]]}`)
	u.refused(1, "does not name the service", "diff", "-f", file(one.URL, "ONE", ""), "--prune", "--state", old)
}
