package apitest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// auditOf returns the rows that a query selects, the oldest first.
func auditOf(t *testing.T, as *apitest.Caller, path, query string) []handlers.AuditRecord {
	t.Helper()
	var page handlers.AuditPage
	as.Get(path + "?count=1000&" + query).Want(200).Decode(&page)
	slices.Reverse(page.Events)
	return page.Events
}

// summary is what a row states, in one line.
func summary(e handlers.AuditRecord) string {
	who := e.ActorType
	if e.ActorName != "" {
		who += " " + e.ActorName
	}
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s %s %d %s %s", who, e.Operation, e.Object, e.Outcome, e.Status, e.Code, e.Change))
}

func wantAudit(t *testing.T, got []handlers.AuditRecord, want ...string) {
	t.Helper()
	lines := []string{}
	for _, e := range got {
		lines = append(lines, summary(e))
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}
}

const auditPath = "/api/audit"

// TestAuditAtABroker changes an object at the broker and reads what the log has of it.
func TestAuditAtABroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": "a-long-secret"}).Want(204)
	api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": "a-long-secret"}).WantError(400, "ALREADY_EXISTS")
	api.Root.Put(api.At("/clients"), object{"username": "pump-7", "textname": "Pump"}).Want(204)
	api.Root.Put(api.At("/clients/enable"), object{"username": "pump-7", "enable": false}).Want(204)
	api.Token("viewer").Delete(api.At("/bans?kind=username&value=pump-7")).WantError(403, "FORBIDDEN")
	api.Root.Delete(api.At("/clients?username=pump-7")).Want(204)
	wantAudit(t, auditOf(t, api.Root, auditPath, "broker="+api.Embedded+"&object=pump-7"),
		`user Administrator: createClient pump-7 done 204  {"after":{"password":"***","username":"pump-7"}}`,
		`user Administrator: createClient pump-7 failed 400 ALREADY_EXISTS {"after":{"password":"***","username":"pump-7"}}`,
		`user Administrator: modifyClient pump-7 done 204  {"before":{"username":"pump-7"},"after":{"textname":"Pump","username":"pump-7"}}`,
		`user Administrator: enableClient pump-7 done 204  {"before":{"username":"pump-7"},"after":{"enable":false,"username":"pump-7"}}`,
		`user Administrator: deleteClient pump-7 done 204  {"parameters":{"username":"pump-7"},"before":{"connections":[],"disabled":true,"groups":[],"roles":[],"textname":"Pump","username":"pump-7"}}`)
	refused := auditOf(t, api.Root, auditPath, "outcome=refused")
	if len(refused) != 1 || refused[0].Operation != "deleteBan" || refused[0].ActorType != "token" || refused[0].BrokerID != api.Embedded {
		t.Errorf("got refused rows %+v", refused)
	}
}

// TestAuditOfTheService changes users and projects, and reads the log as the project's admin.
func TestAuditOfTheService(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var user handlers.Identifier
	api.Root.Post("/api/users", object{"email": "ada@example.com", "firstname": "Ada", "password": "analytical"}).Want(200).Decode(&user)
	ada := api.LogIn("ada@example.com", "analytical")
	var project handlers.ProjectRecord
	ada.Post("/api/projects", object{"name": "plant"}).Want(200).Decode(&project)
	ada.Put("/api/projects/"+project.ID+"/members/"+user.ID, object{"role": "viewer"}).WantError(400, "CONFLICT")
	ada.Get(auditPath).WantError(403, "FORBIDDEN")
	ada.Post("/api/auth/logout", nil).Want(204)
	wantAudit(t, auditOf(t, api.Root, auditPath, "actor="+user.ID),
		`user Ada: login ada@example.com done 200  {"after":{"email":"***","password":"***"}}`,
		`user Ada: createProject `+project.ID+` done 200  {"after":{"name":"plant"}}`,
		`user Ada: putMember `+user.ID+` failed 400 CONFLICT {"before":{"role":"admin"},"after":{"role":"viewer"}}`,
		`user Ada: listAudit  refused 403 FORBIDDEN`,
		`user Ada: logout  done 204`)
	again := api.LogIn("ada@example.com", "analytical")
	wantAudit(t, auditOf(t, again, "/api/projects/"+project.ID+"/audit", "operation=createProject"),
		`user Ada: createProject `+project.ID+` done 200  {"after":{"name":"plant"}}`)
	if rows := auditOf(t, api.Root, auditPath, "object="+project.ID); len(rows) != 1 || rows[0].Name != "plant" {
		t.Errorf("the name of the project is not in %+v", rows)
	}
	first := auditOf(t, api.Root, auditPath, "actorType=system")
	if len(first) != 1 || first[0].Operation != "firstStart" || first[0].Seq != 1 {
		t.Errorf("got %+v", first)
	}
}

// TestAuditOfRepeatedRefusals guesses a password: the log does not grow with each attempt. What
// was typed in the place of the address is not in the log unless it is that of an account.
func TestAuditOfRepeatedRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	api := apitest.New(t, apitest.In(dir))
	for _, email := range []string{apitest.RootEmail, "correct-horse-battery"} {
		for range 4 {
			api.Anonymous().Post("/api/auth/login", object{"email": email, "password": "guess"}).WantError(401, "UNAUTHORIZED")
		}
	}
	known := `: login root@example.com refused 401 UNAUTHORIZED {"after":{"email":"***","password":"***"}}`
	unknown := `: login  refused 401 UNAUTHORIZED {"after":{"email":"***","password":"***"}}`
	wantAudit(t, auditOf(t, api.Root, auditPath, "operation=login&outcome=refused"), known, unknown)
	api.Stop()
	api = apitest.New(t, apitest.In(dir))
	rows := auditOf(t, api.Root, auditPath, "outcome=refused&object="+apitest.RootEmail)
	wantAudit(t, rows, known, known)
	if rows[0].Count != 1 || rows[1].Count != 3 {
		t.Errorf("got counts %d and %d, want 1 and 3", rows[0].Count, rows[1].Count)
	}
}

// TestAuditOfRefusedReads reads without the right, with a wrong token, and without any: only the
// last, which every page does whose session has ended, has no row.
func TestAuditOfRefusedReads(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Token("admin").Get(auditPath+"/export").WantError(403, "FORBIDDEN")
	api.Bearer("sbx_none").Get("/api/users").WantError(401, "UNAUTHORIZED")
	api.Anonymous().Get("/api/projects").WantError(401, "UNAUTHORIZED")
	rows := auditOf(t, api.Root, auditPath, "outcome=refused")
	if len(rows) != 2 || rows[0].Operation != "exportAudit" || rows[0].ActorType != "token" || rows[1].Operation != "listUsers" || rows[1].Code != "UNAUTHORIZED" {
		t.Errorf("got %+v", rows)
	}
}

// TestAuditOfAnImport imports a document: its row has the length and the hash of that.
func TestAuditOfAnImport(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	const document = `{"roles":[{"rolename":"sensor","acls":[]}]}`
	api.Root.Post(api.At("/access/import"), apitest.Text(document)).Want(200)
	wantAudit(t, auditOf(t, api.Root, auditPath, "operation=importAccess"),
		fmt.Sprintf(`user Administrator: importAccess  done 200  {"after":{"bytes":%d,"sha256":"%x"}}`, len(document), sha256.Sum256([]byte(document))))
}

// TestAuditPages reads the log in pages, from the newest row to the oldest.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 7 {
		api.Root.Post(api.At("/roles"), object{"rolename": fmt.Sprint("r", i)}).Want(204)
	}
	var names []string
	for next := int64(0); ; {
		var page handlers.AuditPage
		api.Root.Get(fmt.Sprintf("%s?operation=createRole&count=3&before=%d", auditPath, next)).Want(200).Decode(&page)
		for _, e := range page.Events {
			names = append(names, e.Object)
		}
		if next = page.Next; next == 0 {
			break
		}
	}
	if diff := cmp.Diff([]string{"r6", "r5", "r4", "r3", "r2", "r1", "r0"}, names); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	api.Root.Get(auditPath+"?since=2026-01-31&count=0&outcome=lost").WantError(400, "INVALID_REQUEST")
}

// TestAuditHasNoSecrets plants a secret wherever the API takes one, and looks for it in the rows
// and in the database.
func TestAuditHasNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "sentinel-5f2c"
	dir := t.TempDir()
	api := apitest.New(t, apitest.In(dir))
	root := api.Root
	root.Post("/api/users", object{"email": "eve@example.com", "password": secret})
	api.Anonymous().Post("/api/auth/login", object{"email": "eve@example.com", "password": secret}).Want(200)
	api.Anonymous().Post("/api/auth/login", object{"email": "eve@example.com", "password": secret + "!"}).WantError(401, "UNAUTHORIZED")
	root.Put("/api/auth/password", object{"current": secret, "new": secret + "2"})
	root.Post(api.At("/clients"), object{"username": "c", "password": secret}).Want(204)
	root.Put(api.At("/clients"), object{"username": "c", "password": secret}).Want(204)
	root.Post(api.At("/messages"), object{"topic": "t", "payload": secret}).Want(204)
	project := "/api/projects/" + api.Project
	connection := object{"name": "far", "url": "mqtt://127.0.0.1:1", "credentials": object{"username": "u", "password": secret}, "password": secret, "client_key": secret}
	root.Post(project+"/brokers", connection)
	root.Post(project+"/brokers/test", connection)
	root.Post(project+"/clusters", object{"name": secret[:4], "nodes": []object{{"password": secret, "client_key": secret, "credentials": object{"password": secret}}}})
	config := object{"version": "v1", "connections": []object{{"name": "c", "connection": object{"url": "http://127.0.0.1:1", "token": secret}, "topicMappings": []object{}}}}
	for _, o := range []string{"/config", "/test", "/preview"} {
		root.Put(api.At("/bridges/http-bridge"+o), config)
		root.Post(api.At("/bridges/http-bridge"+o), config)
	}
	root.Post(api.At("/access/import"), object{"clients": []object{{"username": "x", "password": secret}}})
	var token handlers.NewTokenRecord
	root.Post(project+"/tokens", object{"name": "t", "role": "viewer", "type": "unrestricted"}).Decode(&token)
	rows, err := json.Marshal(auditOf(t, root, auditPath, ""))
	if err != nil || bytes.Contains(rows, []byte(secret)) || token.Token != "" && bytes.Contains(rows, []byte(token.Token)) {
		t.Errorf("the rows have a secret: %s, %v", rows, err)
	}
	api.Stop()
	for _, name := range []string{"signalbox.db"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s has a secret, or cannot be read: %v", name, err)
		}
	}
	if len(rows) < 1000 {
		t.Errorf("only %d bytes of rows were looked through", len(rows))
	}
}

// TestAuditOfABridge changes the configuration of a bridge: the log has it as it is read.
func TestAuditOfABridge(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	config := object{"version": "v1", "connections": []object{{"name": "c", "connection": object{"url": "http://127.0.0.1:1", "token": "secret"}}}}
	api.Root.Put(api.At("/bridges/http-bridge/config"), config).Want(204)
	rows := auditOf(t, api.Root, auditPath, "object=http-bridge")
	if len(rows) != 1 || !strings.Contains(string(rows[0].Change), `"token":"********"`) || !strings.Contains(string(rows[0].Change), `"before":`) {
		t.Errorf("got %+v", rows)
	}
}

// TestAuditOfHostileNames changes objects with hostile names, and finds each by its name.
func TestAuditOfHostileNames(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, name := range []string{`<script>alert(1)</script>`, "'; DROP TABLE audit; --", "a\u202eb", strings.Repeat("ä", 400)} {
		api.Root.Post(api.At("/roles"), object{"rolename": name}).Want(204)
		stored := name
		if len(stored) > 512 {
			stored = stored[:512]
		}
		if rows := auditOf(t, api.Root, auditPath, "object="+url.QueryEscape(stored)); len(rows) != 1 || rows[0].Operation != "createRole" {
			t.Errorf("%q: got %+v", name, rows)
		}
	}
}

// TestAuditOfAJob disables two clients with a job: each has a row with the id of the job.
func TestAuditOfAJob(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, name := range []string{"a", "b"} {
		api.Root.Post(api.At("/clients"), object{"username": name, "password": "a-long-one"}).Want(204)
	}
	var job handlers.JobRecord
	api.Root.Post(api.At("/jobs"), object{"action": "disableClients", "ids": []string{"a", "b", "none"}}).Want(200).Decode(&job)
	suite.WaitFor(t, "the job has ended", func() bool {
		api.Root.Get(api.At("/jobs/" + job.ID)).Want(200).Decode(&job)
		return !job.EndedAt.IsZero()
	})
	rows := auditOf(t, api.Root, auditPath, "requestId="+job.ID)
	slices.SortFunc(rows, func(a, b handlers.AuditRecord) int { return strings.Compare(a.Object, b.Object) })
	wantAudit(t, rows,
		`user Administrator: enableClient a done 0  {"after":{"enable":false}}`,
		`user Administrator: enableClient b done 0  {"after":{"enable":false}}`,
		`user Administrator: enableClient none failed 0 NOT_FOUND {"after":{"enable":false}}`)
	if made := auditOf(t, api.Root, auditPath, "object="+job.ID); len(made) != 1 || made[0].Operation != "createJob" {
		t.Errorf("got %+v", made)
	}
}

// TestAuditExport exports more rows than are read at a time, in both formats.
func TestAuditExport(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 3 {
		api.Root.Post(api.At("/roles"), object{"rolename": fmt.Sprint("=r", i)}).Want(204)
	}
	var events []handlers.AuditRecord
	for dec := json.NewDecoder(bytes.NewReader(api.Root.Get(auditPath + "/export?operation=createRole").Want(200).Body)); dec.More(); {
		var e handlers.AuditRecord
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	slices.Reverse(events)
	if diff := cmp.Diff(auditOf(t, api.Root, auditPath, "operation=createRole"), events); diff != "" {
		t.Errorf("export (-list +export):\n%s", diff)
	}
	table, err := csv.NewReader(bytes.NewReader(api.Root.Get(auditPath + "/export?format=csv&operation=createRole").Want(200).Body)).ReadAll()
	if err != nil || len(table) != 4 || table[3][11] != "'=r0" || table[0][0] != "seq" {
		t.Errorf("got %v, %v", table, err)
	}
	api.Root.Get(auditPath+"/export?format=xml").WantError(400, "INVALID_REQUEST")
	api.Token("admin").Get(auditPath+"/export").WantError(403, "FORBIDDEN")
}

// TestAuditOfControl changes the embedded broker over MQTT: each command that changes something
// has a row, and what only reads has none.
func TestAuditOfControl(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	client, err := mqtttest.LogIn(t, api.MQTT, "laptop-1", mqttAdmin, mqttPassword)
	if err != nil {
		t.Fatal(err)
	}
	const topic = "$CONTROL/dynamic-security/v1"
	send := func(request string) {
		mqtttest.Acknowledged(t, client.Publish(topic, 1, false, request))
	}
	send(`{"commands":[{"command":"listClients"},
		{"COMMAND":"CREATECLIENT","username":"pump-7","passWord":"sentinel-9c","PASSWORD":"sentinel-9d","passwd":"sentinel-9f","textname":"Pump",
			"roles":[{"rolename":"admin","secret":"sentinel-9g"}]},
		{"command":"deleteRole","rolename":"none","correlationData":"1"},{"command":"nonsense","rolename":"sentinel-9h"}]} rest`)
	send(`{"commands":[{"command":"setClientPassword","username":"pump-7","password":"sentinel-9e"}]}`)
	send(`{"commands":[{"command":"getClient","username":"pump-7"}]}`)
	for range 3 {
		send(`{"commands":[{"command":"deleteRole","rolename":"none"}]}`)
	}
	send(`{"commands":[{"command":"deleteClient","username":"pump-7"}]}`)
	var rows []handlers.AuditRecord
	suite.WaitFor(t, "the rows are stored", func() bool {
		rows = auditOf(t, api.Root, auditPath, "actorType=client")
		return len(rows) > 0 && rows[len(rows)-1].Operation == "deleteClient"
	})
	wantAudit(t, rows,
		`client admin: createClient pump-7 done 0  {"after":{"password":"***","roles":[{"rolename":"admin"}],"textname":"Pump","username":"pump-7"}}`,
		`client admin: deleteRole none failed 0  {"after":{"rolename":"none"},"error":"Role not found"}`,
		`client admin: setClientPassword pump-7 done 0  {"after":{"password":"***","username":"pump-7"}}`,
		`client admin: deleteClient pump-7 done 0  {"after":{"username":"pump-7"}}`)
	for _, e := range rows {
		if e.BrokerID != api.Embedded || e.ProjectID == "" || e.UserAgent != "laptop-1" || e.Address != "127.0.0.1" || e.ActorID != mqttAdmin {
			t.Errorf("got %+v", e)
		}
	}
	if open := auditOpen(t, api.Root); len(open) != 0 {
		t.Errorf("open rows are left: %+v", open)
	}
}

// TestAuditOfControlOfABridge configures a bridge over MQTT: its configuration, which may have
// secrets in any place, is not recorded.
func TestAuditOfControlOfABridge(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	client, err := mqtttest.LogIn(t, api.MQTT, "", mqttAdmin, mqttPassword)
	if err != nil {
		t.Fatal(err)
	}
	mqtttest.Acknowledged(t, client.Publish("$CONTROL/cedalo/http-bridge/v1", 1, false, `{"commands":[{"command":"updateConfig","configChange":{"headers":{"x":"sentinel-7a"}}}]}`))
	var rows []handlers.AuditRecord
	suite.WaitFor(t, "the row is stored", func() bool {
		rows = auditOf(t, api.Root, auditPath, "actorType=client")
		return len(rows) == 1
	})
	if rows[0].Operation != "updateConfig" || rows[0].Object != "http-bridge" || rows[0].Outcome != "failed" || strings.Contains(string(rows[0].Change), "sentinel") {
		t.Errorf("got %+v: %s", rows[0], rows[0].Change)
	}
}

// auditOpen returns the operations in progress.
func auditOpen(t *testing.T, as *apitest.Caller) []handlers.AuditRecord {
	t.Helper()
	var page handlers.AuditPage
	as.Get(auditPath).Want(200).Decode(&page)
	return page.Open
}

// TestConsoleAudit shows the account of a log-in, whose address is masked in the change, and the
// destinations of the log with the reason why one does not receive.
func TestConsoleAudit(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) {
		c.Audit.Sinks.File, c.Audit.Sinks.Webhook = filepath.Join(t.TempDir(), "audit.jsonl"), "http://127.0.0.1:1/secret-path"
	})
	b := api.Browser(apitest.RootEmail, apitest.RootPassword)
	suite.WaitFor(t, "the webhook has failed", func() bool {
		var all []handlers.AuditSinkRecord
		api.Root.Get(auditPath + "/sinks").Want(200).Decode(&all)
		return len(all) == 2 && all[0].Error == "" && all[1].Error != ""
	})
	b.Lacks(b.Want(b.Get("/audit?operation=login"), 200, "<td>"+apitest.RootEmail+"</td>", ">Sign in</span>", "Copies of the log", "audit.jsonl", "http://127.0.0.1:1<", "Does not receive", "connection refused"),
		"secret-path", "<td>***</td>")
}
