package systemtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
)

// runningMosquitto is a broker whose clients were created with its own tool.
func runningMosquitto(t *testing.T) *brokertest.Server {
	t.Helper()
	server := brokertest.Mosquitto(t)
	for _, line := range []string{
		"createRole sensor", "addRoleACL sensor publishClientSend plant/# allow 5",
		"createGroup pumps", "addGroupRole pumps sensor",
		"createClient pump-7 -p secret", "createClient pump-8 -p other", "addGroupClient pumps pump-7",
		"createClient retired -p secret", "disableClient retired",
	} {
		args := append([]string{"dynsec"}, strings.Fields(line)...)
		got := finish(t, tool(t, "mosquitto_ctrl", server.Addr, server.AdminUsername, string(server.AdminPassword), args...))
		if got.code != 0 || strings.Contains(got.stderr, "Error") {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	return server
}

// wantImported runs a command that must succeed and report what it imported.
func wantImported(t *testing.T, got outcome, report string) {
	t.Helper()
	if got.code != 0 || !strings.Contains(got.stdout, report) {
		t.Fatalf("got %+v, want %q", got, report)
	}
}

// wantMosquittosClients checks that a broker has exactly what runningMosquitto has.
func wantMosquittosClients(t *testing.T, p *service, r *caller, server *brokertest.Server) {
	t.Helper()
	for kind, want := range map[string][]string{
		"clients": {server.AdminUsername, "pump-7", "pump-8", "retired"}, "groups": {"pumps"}, "roles": {"admin", "sensor"},
	} {
		if got := r.names(t, kind); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", kind, got, want)
		}
	}
	for username, password := range map[string]string{
		"pump-7": "secret", "pump-8": "other", server.AdminUsername: string(server.AdminPassword)} {
		mqtttest.Join(t, p.MQTT, username, password)
	}
	if mqtttest.Accepts(t, p.MQTT, "pump-7", "other") || mqtttest.Accepts(t, p.MQTT, "retired", "secret") || mqtttest.Accepts(t, p.MQTT, mqttAdmin, mqttPassword) {
		t.Error("somebody gets in who must not")
	}
}

// TestImportBeforeTheFirstStart imports the file of a running Mosquitto.
func TestImportBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	server, dir := runningMosquitto(t), dataDir(t)
	beside := snapshot(t, filepath.Dir(server.DynsecPath))
	wantImported(t, command(t, settings(nil).environ(dir), "import", "dynsec", server.DynsecPath), "imported 4 clients, 1 groups and 2 roles")
	if diff := cmp.Diff(beside, snapshot(t, filepath.Dir(server.DynsecPath))); diff != "" {
		t.Errorf("the import changed Mosquitto's files (-before +after):\n%s", diff)
	}
	p := serve(t, dir, settings{"ADMIN_EMAIL": rootEmail, "ADMIN_PASSWORD": rootPassword})
	wantMosquittosClients(t, p, root(t, p), server)
	p.stop(t)
	if strings.Contains(p.Stdout.String(), "MQTT administrator") {
		t.Error("the first start made an administrator beside those of the file")
	}
}

// TestImportWhileRunning imports through the API. A contradiction refuses the whole
// file, unless it replaces everything.
func TestImportWhileRunning(t *testing.T) {
	t.Parallel()
	server := runningMosquitto(t)
	p := serve(t, dataDir(t), configured(nil))
	r := root(t, p)
	r.sensor(t, "pump-9", "secret")
	kept := mqtttest.Join(t, p.MQTT, "pump-9", "secret")
	before := r.text(t, r.at("/access/export"))
	env := []string{"SIGNALBOX_TOKEN=" + r.token}

	wantExit(t, 5, command(t, env, "import", "dynsec", server.DynsecPath, "--url", p.API), "nothing was imported", mqttAdmin)
	wantExit(t, 4, command(t, nil, "import", "dynsec", server.DynsecPath, "--url", p.API), "UNAUTHORIZED")
	if got := r.text(t, r.at("/access/export")); got != before {
		t.Errorf("a refused import changed something:\n%s", cmp.Diff(before, got))
	}
	if !kept.IsConnectionOpen() {
		t.Error("a refused import threw a client out")
	}

	token := filepath.Join(t.TempDir(), "token")
	write(t, token, r.token)
	wantImported(t, command(t, nil, "import", "dynsec", server.DynsecPath, "--replace", "--url", p.API, "--token-file", token),
		"imported 4 clients, 1 groups and 2 roles")
	kept.WantLost(t)
	wantMosquittosClients(t, p, r, server)
	if mqtttest.Accepts(t, p.MQTT, "pump-9", "secret") {
		t.Error("a client gets in that the file does not have")
	}
}

// TestImportOnARunningDataDirectory is refused with the remedy.
func TestImportOnARunningDataDirectory(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	file := filepath.Join(t.TempDir(), "passwd")
	write(t, file, mosquittoPasswords(t))
	for _, args := range [][]string{{"import", "passwd", file}, {"export", "dynsec", file + ".out"}} {
		wantRefused(t, command(t, configured(nil).environ(p.dir), args...), "--url", "--token")
	}
	if got := files(t, filepath.Dir(file), "*.out"); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
}

// aclFile has the rules of two devices.
const aclFile = "user pump-7\ntopic write plant/#\n\nuser pump-8\ntopic read cmd/#\n"

// TestImportPasswordsAndRules imports both files, in either order: each client then has
// its password and its rules.
func TestImportPasswordsAndRules(t *testing.T) {
	t.Parallel()
	in := t.TempDir()
	paths := map[string]string{"passwd": filepath.Join(in, "passwd"), "acl": filepath.Join(in, "acl")}
	write(t, paths["passwd"], mosquittoPasswords(t))
	write(t, paths["acl"], aclFile)
	var exports []string
	for _, order := range [][]string{{"passwd", "acl"}, {"acl", "passwd"}} {
		dir := dataDir(t)
		env := configured(nil).environ(dir)
		for _, kind := range order {
			wantImported(t, command(t, env, "import", kind, paths[kind]), "imported 2 clients")
		}
		for _, kind := range order { // what was imported already is not a contradiction
			wantImported(t, command(t, env, "import", kind, paths[kind]), "imported 2 clients")
		}
		out := filepath.Join(t.TempDir(), "out.json")
		if got := command(t, env, "export", "dynsec", out); got.code != 0 || mode(t, out) != 0o600 {
			t.Errorf("export: %+v", got)
		}
		exports = append(exports, withoutIndex(t, read(t, out)))
		p := serve(t, dir, configured(nil))
		if got := root(t, p).names(t, "clients"); !slices.Equal(got, []string{"pump-7", "pump-8"}) {
			t.Errorf("%v: clients %v", order, got)
		}
		pump := mqtttest.Join(t, p.MQTT, "pump-7", "secret")
		reader := mqtttest.Join(t, p.MQTT, "pump-8", "secret")
		if !grants(t, reader, "cmd/#") || grants(t, pump, "cmd/#") || grants(t, reader, "plant/#") {
			t.Errorf("%v: the rules of the acl_file do not hold", order)
		}
		p.stop(t)
	}
	if diff := cmp.Diff(exports[0], exports[1]); diff != "" {
		t.Errorf("the order matters (-passwd first +acl first):\n%s", diff)
	}
}

// TestImportKeepsDefaults imports a document with only defaults, and then files without
// any.
func TestImportKeepsDefaults(t *testing.T) {
	t.Parallel()
	const defaults = `{"publishClientSend":true,"publishClientReceive":false,"subscribe":true,"unsubscribe":false}`
	in := t.TempDir()
	write(t, filepath.Join(in, "dynsec"), `{"defaultACLAccess":`+defaults+`}`)
	write(t, filepath.Join(in, "passwd"), mosquittoPasswords(t))
	write(t, filepath.Join(in, "acl"), aclFile)
	for _, second := range []string{"passwd", "acl"} {
		env := configured(nil).environ(dataDir(t))
		for _, kind := range []string{"dynsec", second} {
			wantImported(t, command(t, env, "import", kind, filepath.Join(in, kind)), "imported")
		}
		got := command(t, env, "export", "dynsec", "-")
		if got.code != 0 || !strings.Contains(strings.Join(strings.Fields(got.stdout), ""), `"defaultACLAccess":`+defaults) {
			t.Errorf("after %s: %+v", second, got)
		}
	}
}

// TestImportOfOldHashes imports a password_file with a $6$ hash: its user can log in,
// and is named as one who needs a new password.
func TestImportOfOldHashes(t *testing.T) {
	t.Parallel()
	in := t.TempDir()
	path := filepath.Join(in, "passwd")
	write(t, path, mosquittoPasswords(t))
	old := tool(t, "mosquitto_passwd", "127.0.0.1:1", "", "")
	old.Args = []string{"mosquitto_passwd", "-H", "sha512", "-b", path, "veteran", "secret of old"}
	if got := finish(t, old); got.code != 0 || !strings.Contains(read(t, path), "veteran:$6$") {
		t.Fatalf("mosquitto_passwd: %+v", got)
	}
	dir := dataDir(t)
	env := configured(nil).environ(dir)
	wantRefused(t, command(t, env, "import", "passwd", "--strict", path), "veteran", "$6$")
	got := command(t, env, "import", "passwd", path)
	wantImported(t, got, "imported 3 clients")
	if !strings.Contains(got.stderr, `"veteran" needs a new password`) || strings.Contains(got.stderr, "pump-7") {
		t.Errorf("warnings: %s", got.stderr)
	}
	p := serve(t, dir, configured(nil))
	mqtttest.Join(t, p.MQTT, "veteran", "secret of old")
	mqtttest.Join(t, p.MQTT, "pump-7", "secret")
	if mqtttest.Accepts(t, p.MQTT, "veteran", "secret") {
		t.Error("a wrong password lets in")
	}
	p.stop(t)
}

// TestImportOfABadFile names the lines and imports nothing.
func TestImportOfABadFile(t *testing.T) {
	t.Parallel()
	for kind, text := range map[string]string{
		"passwd": mosquittoPasswords(t) + "plain:secret\n",
		"acl":    aclFile + "topic fly plant/#\n",
		"dynsec": `{"clients":[{"username":"a"},{"username":"a"}]}`,
	} {
		dir, file := dataDir(t), filepath.Join(t.TempDir(), kind)
		write(t, file, text)
		got := command(t, configured(nil).environ(dir), "import", kind, file)
		if got.code != 1 || !strings.Contains(got.stderr, file) || !strings.Contains(got.stderr, map[string]string{
			"passwd": "line 3", "acl": "line 6", "dynsec": `"a"`}[kind]) {
			t.Errorf("%s: %+v", kind, got)
		}
		p := serve(t, dir, configured(nil))
		if got := root(t, p).names(t, "clients"); !slices.Equal(got, []string{mqttAdmin}) {
			t.Errorf("%s: after a refused import the first start has the clients %v", kind, got)
		}
	}
}

// TestExportIsReadByMosquitto exports a configuration from Mosquitto and, with a change
// made here, imports it there again.
func TestExportIsReadByMosquitto(t *testing.T) {
	t.Parallel()
	server, dir := runningMosquitto(t), dataDir(t)
	wantImported(t, command(t, settings(nil).environ(dir), "import", "dynsec", server.DynsecPath), "imported")
	p := serve(t, dir, configured(nil))
	r := root(t, p)
	r.must(t, "POST", r.at("/clients"), object{"username": "new", "groups": []object{{"groupname": "pumps"}}}, nil)
	out := filepath.Join(t.TempDir(), "out.json")
	if got := command(t, []string{"SIGNALBOX_TOKEN=" + r.token}, "export", "dynsec", out, "--url", p.API); got.code != 0 {
		t.Fatalf("export: %+v", got)
	}
	if got := mode(t, out); got != 0o600 {
		t.Errorf("mode of the exported file: got %v, want 0600", got)
	}
	p.stop(t)

	again := brokertest.Mosquitto(t, brokertest.WithDynsec([]byte(read(t, out))))
	ctrl := func(address string, args ...string) outcome {
		return finish(t, tool(t, "mosquitto_ctrl", address, server.AdminUsername, string(server.AdminPassword), append([]string{"dynsec"}, args...)...))
	}
	for _, args := range [][]string{{"getClient", "pump-7"}, {"getClient", "retired"}, {"getRole", "sensor"}, {"listGroups"}, {"getDefaultACLAccess"}} {
		if diff := cmp.Diff(ctrl(server.Addr, args...), ctrl(again.Addr, args...), cmp.AllowUnexported(outcome{})); diff != "" {
			t.Errorf("%v (-before +after):\n%s", args, diff)
		}
	}
	if got := ctrl(again.Addr, "getClient", "new"); !strings.Contains(got.stdout, "pumps") {
		t.Errorf("the client made here: %+v", got)
	}
	mqtttest.Join(t, again.Addr, "pump-7", "secret")
	mqtttest.Join(t, again.Addr, "pump-8", "other")
	if mqtttest.Accepts(t, again.Addr, "retired", "secret") {
		t.Error("a disabled client gets in")
	}
}

// withoutIndex removes the number of changes.
func withoutIndex(t *testing.T, document string) string {
	t.Helper()
	var d map[string]any
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		t.Fatal(err)
	}
	delete(d, "changeIndex")
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// grants reports whether a subscription is granted.
func grants(t *testing.T, d *mqtttest.Paho, filter string) bool {
	t.Helper()
	return d.SubscribeCode(t, filter) < 0x80
}

// mosquittoPasswords returns a password_file for pump-7 and pump-8, both with the
// password "secret", made by Mosquitto's tool.
func mosquittoPasswords(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "passwd")
	write(t, path, "")
	for _, username := range []string{"pump-7", "pump-8"} {
		cmd := tool(t, "mosquitto_passwd", "127.0.0.1:1", "", "")
		cmd.Args = []string{"mosquitto_passwd", "-b", path, username, "secret"}
		if got := finish(t, cmd); got.code != 0 {
			t.Fatalf("mosquitto_passwd: %+v", got)
		}
	}
	return read(t, path)
}

// TestCampaignKillDuringImport kills an import at several moments. The next start finds
// all of the file, or nothing.
func TestCampaignKillDuringImport(t *testing.T) {
	t.Parallel()
	const clients = 3000
	document := brokertest.Document{Groups: []brokertest.DocumentGroup{{GroupName: "all"}}}
	for i := range clients {
		username := fmt.Sprintf("device-%04d", i)
		document.Clients = append(document.Clients, brokertest.DocumentClient{Username: username, Roles: []broker.RoleRef{}})
		document.Groups[0].Clients = append(document.Groups[0].Clients, broker.MemberRef{Username: username, Priority: broker.NoPriority})
	}
	document.Groups[0].Roles, document.Roles = []broker.RoleRef{}, []broker.Role{}
	file := filepath.Join(t.TempDir(), "dynamic-security.json")
	write(t, file, string(document.JSON(t)))

	began := time.Now()
	wantImported(t, command(t, configured(nil).environ(dataDir(t)), "import", "dynsec", file), "imported 3000 clients")
	whole := time.Since(began)
	for part := range 5 {
		dir := dataDir(t)
		cmd := prepare(configured(nil).environ(dir), "import", "dynsec", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(whole*time.Duration(part+5)/10, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
		cmd.Wait()                                                                            //nolint:errcheck // it was killed, or was faster
		kill.Stop()
		p := serve(t, dir, configured(nil))
		r := root(t, p)
		var groups []struct{ Clients []any }
		r.must(t, "GET", r.at("/groups"), nil, &groups)
		switch names := r.names(t, "clients"); {
		case len(names) == clients && len(groups) == 1 && len(groups[0].Clients) == clients:
		case slices.Equal(names, []string{mqttAdmin}) && len(groups) == 0:
		default:
			t.Errorf("killed after %d tenths: %d clients and the groups %.100v are there", part+5, len(names), groups)
		}
		p.stop(t)
	}
}
