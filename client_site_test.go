package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// declared is a file of declared state, of the embedded broker and two Mosquittos.
const declared = `
version: 1
projects:
  - name: default
    brokers:
      - name: embedded
        roles: &roles
          - rolename: sensor
            acls:
              - {acltype: publishClientSend, topic: plant/%u/#, allow: true}
              - {acltype: subscribeLiteral, topic: plant/time, priority: 5, allow: true}
        groups: &groups
          - groupname: sensors
            roles: [sensor]
        clients: &clients
          - username: pump-7
            password: {env: PUMP}
            groups: [sensors]
          - username: pump-8
            disabled: true
            roles: [{rolename: sensor, priority: 3}]
        streams:
          - {streamname: speed, sourcetopic: plant/+/raw, targettopic: plant/speed}
        bridges:
          http-bridge:
            version: v1
            connections:
              - name: out
                enabled: false
                connection: {url: http://127.0.0.1:1/in, credentials: {username: u, password: {$env: HOOK}}}
      - {name: line-1, url: "URL1", username: admin, password: {env: PASSWORD1}, roles: *roles, groups: *groups, clients: *clients}
  - name: hall
    description: Hall 3
    members: [{email: admin@example.com, role: admin}]
    brokers:
      - {name: line-2, url: "URL2", username: admin, password: {file: "FILE2"}, roles: *roles, groups: *groups, clients: *clients, acldefault: [{acltype: subscribe, allow: true}]}
`

// TestApplyToBrokers applies one file to the embedded broker and two Mosquittos, shows what
// was changed with mosquitto_ctrl, and mirrors one broker to another.
func TestApplyToBrokers(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	one, two := brokertest.Mosquitto(t), brokertest.Mosquitto(t)
	u.env = append(u.env, "PUMP=drip", "HOOK=hush")
	text := strings.NewReplacer("URL1", one.URL, "URL2", two.URL, "FILE2", u.file("two", string(two.AdminPassword)+"\n"), "admin@example.com", u.email()).Replace(declared)
	file := u.file("site.yaml", text)

	if got := u.run("apply", "-f", file); got.code != 1 || !strings.Contains(got.errors, "PASSWORD1") || u.count("project", "list") != 1 {
		t.Errorf("without a secret: %+v", got)
	}
	u.env = append(u.env, "PASSWORD1="+string(one.AdminPassword))
	if got := u.done("diff", "-f", file); !strings.Contains(got, "create client pump-7 (default/embedded)") || u.count("client", "list", "--project", "default", "--broker", "embedded") != 1 {
		t.Errorf("diff: %s", got)
	}
	u.done("apply", "-f", file)
	wantNothing := func() {
		t.Helper()
		if got := u.done("diff", "-f", file, "--exit-code"); !strings.Contains(got, "there is nothing to change") {
			t.Errorf("after it was applied: %s", got)
		}
	}
	wantNothing()
	for broker, project := range map[string]string{"embedded": "default", "line-1": "default", "line-2": "hall"} {
		at := []string{"--project", project, "--broker", broker}
		if got := u.done(append([]string{"access", "check", "plant/pump-7/x", "--username", "pump-7", "--action", "publish"}, at...)...); !strings.Contains(got, "true") {
			t.Errorf("%s: pump-7 may not publish: %s", broker, got)
		}
	}

	ctrl := func(args ...string) {
		t.Helper()
		host, port, _ := strings.Cut(one.Addr, ":")
		options := []string{"-h", host, "-p", port, "-u", one.AdminUsername, "-P", string(one.AdminPassword), "dynsec"}
		if out, err := exec.CommandContext(t.Context(), "mosquitto_ctrl", append(options, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_ctrl %v: %v: %s", args, err, out)
		}
	}
	ctrl("addRoleACL", "sensor", "publishClientSend", "evil/#", "allow", "9")
	ctrl("createRole", "extra")
	got := u.run("diff", "-f", file, "--exit-code")
	if got.code != 1 || got.out != "update role sensor (default/line-1): acls\nnot in the file, and left as they are: client: 1, role: 2\n" {
		t.Errorf("drift: %+v", got)
	}
	u.done("apply", "-f", file)
	wantNothing()

	// A file that was exported shows everything that decides about access.
	exported := filepath.Join(u.dir, "line-1.yaml")
	u.done("export", "--project", "default", "--broker", "line-1", "-f", exported)
	ctrl("disableClient", "pump-7")
	ctrl("setClientId", "pump-8", "other")
	if got := u.done("diff", "-f", exported); got != "update client pump-8 (default/line-1): clientid\nupdate client pump-7 (default/line-1): enabled\n" {
		t.Errorf("drift of an exported file: %s", got)
	}
	u.done("apply", "-f", exported)
	wantNothing()

	// What was created is deleted when the file lacks it, and only that.
	less := u.file("site.yaml", strings.Replace(text, "          - username: pump-7\n            password: {env: PUMP}\n            groups: [sensors]\n", "", 1))
	u.fails(2, "--yes", "apply", "-f", less, "--prune")
	u.done("apply", "-f", less, "--prune", "--yes")
	if got := u.done("diff", "-f", less, "--prune=all"); !strings.Contains(got, "delete role extra (default/line-1)") || !strings.Contains(got, "keep client admin (default/line-1)") || strings.Contains(got, "delete client admin (default/line") {
		t.Errorf("everything that the file lacks: %s", got)
	}

	// A broker that is mirrored has what the other one has.
	u.done("mirror", "--project", "default", "--from", "embedded", "--to", "line-1", "--yes")
	u.fails(5, "lock the service out", "apply", "-f", u.file("out.json", `{"version": 1, "projects": [{"name": "default", "brokers": [{"name": "line-1", "clients": [{"username": "admin", "roles": []}]}]}]}`))
	mirror := []string{"mirror", "--project", "default", "--from", "embedded", "--to", "line-1"}
	if got := u.done(append(mirror, "--dry-run", "--exit-code")...); !strings.Contains(got, "there is nothing to change") {
		t.Errorf("after the mirror: %s", got)
	}
	ctrl("disableClient", "pump-8")
	ctrl("setClientId", "pump-8", "other")
	u.done("client", "enable", "pump-8", "--project", "default", "--broker", "embedded")
	if got := u.run(append(mirror, "--dry-run", "--exit-code")...); got.code != 1 || !strings.Contains(got.out, "update client pump-8 (default/line-1): clientid\n") || !strings.Contains(got.out, "update client pump-8 (default/line-1): enabled\n") {
		t.Errorf("drift of the mirror: %+v", got)
	}
	u.fails(3, "no broker none", "mirror", "--project", "default", "--from", "embedded", "--to", "none", "--dry-run")

	// A connection that leads to another broker brings what is declared there as well.
	moved := u.file("moved.yaml", strings.NewReplacer(one.URL, two.URL, "env: PASSWORD1", "file: "+filepath.Join(u.dir, "two"), "plant/time", "plant/clock").Replace(text))
	if got := u.done("diff", "-f", moved); !strings.Contains(got, "what is in default/line-1 is compared after that") {
		t.Errorf("another broker: %s", got)
	}
	const withdrawn, granted = "update role sensor (default/embedded): acls: what it withdraws\n", "update role sensor (default/embedded): acls: what it grants\n"
	if got := u.done("diff", "-f", moved); !strings.Contains(got, withdrawn) || !strings.Contains(got, granted) {
		t.Errorf("two steps of one role: %s", got)
	}
	u.done("apply", "-f", moved)
	if got := u.done("diff", "-f", moved, "--exit-code"); !strings.Contains(got, "there is nothing to change") {
		t.Errorf("after the connection was changed: %s", got)
	}
}

// TestExportIsApplied exports a service, and applies the file to another one.
func TestExportIsApplied(t *testing.T) {
	t.Parallel()
	u, other := newTerminal(t), newTerminal(t)
	u.env, other.env = append(u.env, "PUMP=drip", "HOOK=hush"), append(other.env, "SIGNALBOX_SECRET_EMBEDDED_HTTP_BRIDGE_1=hush")
	one := strings.Split(declared, "      - {name: line-1")[0]
	u.done("apply", "-f", u.file("site.yaml", one))
	path := filepath.Join(other.dir, "exported.yaml")
	u.done("export", "-f", path)
	u.refused(5, "exists", "export", "-f", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"drip", "hush", "********"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the file has %q: %s", secret, text)
		}
	}
	other.done("apply", "-f", path)
	if got, want := other.done("export"), u.done("export"); got != want {
		t.Errorf("the other service has\n%s\nwant\n%s", got, want)
	}
	var schema struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal([]byte(u.done("export", "--schema")), &schema); err != nil || schema.Title == "" {
		t.Errorf("schema: %+v, %v", schema, err)
	}
	u.refused(3, "nothing has the name", "export", "--broker", "none")
}

// TestDeclarationsAreChecked checks that every fault of a file is named, and nothing changed.
func TestDeclarationsAreChecked(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, c := range []struct{ text, fault string }{
		{"version: 2\nprojekts: []", "has no member projekts\n"},
		{"version: 1\nprojects: [{name: ''}]", "projects.0.name: must not be empty"},
		{"version: 1\nprojects: [{name: a, brokers: [{name: b, roles: [{rolename: x, acls: [{topic: a}]}]}]}]", "projects.0.brokers.0.roles.0.acls.0: lacks acltype, allow"},
		{"version: 1\nprojects: [{name: a, brokers: [{name: b, password: secret}]}]", "projects.0.brokers.0.password: must be an object with env or with file"},
		{"version: 1\nprojects: [{name: a, brokers: [{name: b, clients: [{username: c, groups: [7]}]}]}]", "groups.0: must be a name, or an object"},
		{"version: 1\nprojects: [{name: a}, {name: a}]", `project "a" is declared more than once`},
		{"version: 1\nprojects: [{name: default, brokers: [{name: embedded, clients: [{username: c}, {username: c}]}]}]", `client "c" is declared more than once`},
	} {
		u.refused(2, c.fault, "apply", "-f", u.file("bad.yaml", c.text))
	}
	for _, c := range []struct{ text, fault string }{
		{"version: 1\nprojects: [{name: default, brokers: [{name: embedded, clients: [{username: c, roles: [none], groups: [no]}]}]}]", `the role "none", which does not exist`},
		{"version: 1\nprojects: [{name: default, brokers: [{name: other}]}]", "no broker other"},
		{"version: 1\nprojects: [{name: default, members: [{email: ADMIN, role: viewer}]}]", "let another user do that"},
	} {
		text := strings.Replace(c.text, "ADMIN", u.email(), 1)
		u.refused(1, c.fault, "apply", "-f", u.file("bad.yaml", text))
	}
	pruned := u.file("pruned.yaml", "version: 1\nprojects: [{name: default, brokers: [{name: embedded, roles: [], clients: [{username: c, roles: [admin]}]}]}]")
	u.refused(1, "deleted because the file lacks it", "apply", "-f", pruned, "--prune=all")
	if n := u.count("client", "list"); n != 1 {
		t.Errorf("%d clients", n)
	}
	u.refused(2, "--prune", "apply", "-f", u.file("a.yaml", "version: 1"), "--prune=some")
	u.refused(2, "--output", "diff", "-f", u.file("a.yaml", "version: 1"), "-o", "yaml")
	var plan struct {
		Steps []struct{ Action, Kind, Name string }
	}
	text := u.done("diff", "-f", u.file("a.yaml", "version: 1\nprojects: [{name: other}]"), "-o", "json")
	if err := json.Unmarshal([]byte(text), &plan); err != nil || len(plan.Steps) != 1 || plan.Steps[0].Kind != "project" || plan.Steps[0].Action != "create" {
		t.Errorf("plan: %s", text)
	}
	u.refused(2, "--state", "apply", "-f", "-", "--prune")
}

// email returns the address of the administrator.
func (u *terminal) email() string {
	u.t.Helper()
	var me struct{ Email string }
	if err := json.Unmarshal([]byte(u.done("user", "me", "-o", "json")), &me); err != nil {
		u.t.Fatal(err)
	}
	return me.Email
}

// count returns the number of entries of a list.
func (u *terminal) count(args ...string) int {
	u.t.Helper()
	return strings.Count(u.done(append(args, "-o", "name")...), "\n")
}

// fails runs a command that must fail with a code and words on standard error; it may have
// printed a plan.
func (u *terminal) fails(code int, words string, args ...string) {
	u.t.Helper()
	if got := u.run(args...); got.code != code || !strings.Contains(got.errors, words) {
		u.t.Errorf("%q: exit code %d, %q; want %d and %q", args, got.code, got.errors, code, words)
	}
}
