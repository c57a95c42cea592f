package apitest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
)

func TestConsoleClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	const name = `a&b "c"/ü?#`
	c.has(c.at("clients"), "pump-7")
	c.do(c.at("clients/new"), "do", "create", "username", name, "password", "secret", "textname", "A", "groups/0/groupname", "pumps")
	got, ok := one[broker.Client](api, "/clients", "username", name)
	if !ok || *got.TextName != "A" || len(got.Groups) != 1 || len(got.Roles) != 0 || got.ClientID != "" {
		t.Fatalf("created: %+v, %t", got, ok)
	}
	mqtttest.Join(t, api.MQTT, name, "secret")
	client := c.at("client", "username", name)
	c.has(client, "127.0.0.1", "plant/#", "sensor", "pumps")
	c.has(c.at("clients/remove", "username", name, "groupname", "pumps"), "1 connection of the client is closed")
	c.has(c.at("clients", "filterValue", "b \"c", "filterTarget", "username", "filterMode", "contains"), "a&amp;b &#34;c&#34;/ü?#")

	c.do(client, "do", "add_role", "rolename", "sensor", "priority", "7")
	c.do(c.at("clients/edit", "username", name), "do", "edit", "textname", "", "clientid", "only", "textdescription", "D")
	c.do(c.at("clients/password", "username", name), "do", "password", "password", "other", "repeated", "other")
	got, _ = one[broker.Client](api, "/clients", "username", name)
	if got.ClientID != "only" || *got.TextName != "" || *got.TextDescription != "D" || len(got.Roles) != 1 || got.Roles[0].Priority != 7 || len(got.Groups) != 1 {
		t.Errorf("changed: %+v", got)
	}
	c.do(c.at("clients/remove", "username", name, "rolename", "sensor"), "do", "remove_role")
	c.do(c.at("clients/remove", "username", name, "groupname", "pumps"), "do", "remove_group")
	c.do(client, "do", "disable")
	if got, _ = one[broker.Client](api, "/clients", "username", name); !got.Disabled || len(got.Roles)+len(got.Groups) != 0 {
		t.Errorf("disabled: %+v", got)
	}
	c.do(client, "do", "enable")
	c.do(client, "do", "add_group", "groupname", "pumps", "priority", "-1")
	if got, _ = one[broker.Client](api, "/clients", "username", name); got.Disabled || len(got.Groups) != 1 {
		t.Errorf("enabled: %+v", got)
	}
	c.has(c.at("clients/delete", "username", name), "pumps")
	c.do(c.at("clients/delete", "username", name), "do", "delete")
	if _, ok = one[broker.Client](api, "/clients", "username", name); ok {
		t.Error("the client was not deleted")
	}
	c.Want(c.Get(client), 404)
}

// TestConsoleRefusesClients posts what the API refuses: the page is shown again, with the
// error and with what was typed.
func TestConsoleRefusesClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	for _, x := range []struct {
		path   string
		form   []string
		status int
		want   string
	}{
		{c.at("clients/new"), []string{"do", "create", "username", "pump-7", "textname", "kept"}, 400, `value="kept"`},
		{c.at("clients/new"), []string{"do", "create", "username", "x", "roles/0/rolename", "none"}, 404, `value="none"`},
		{c.at("clients/password", "username", "pump-7"), []string{"do", "password", "password", "a", "repeated", "b"}, 400, "differ"},
		{c.at("client", "username", "pump-7"), []string{"do", "add_role", "rolename", "sensor", "priority", "100001"}, 400, `id="f-add_role-priority-error"`},
		{c.at("client", "username", "pump-7"), []string{"do", "unknown"}, 400, "Reload"},
	} {
		if status, text := c.post(x.path, formOf(x.form)); status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%q: %d, lacks %q\n%s", x.form, status, x.want, text)
		}
	}
	if got, _ := one[broker.Client](api, "/clients", "username", "pump-7"); len(got.Roles) != 0 || got.TextName != nil {
		t.Errorf("changed all the same: %+v", got)
	}
}

func TestConsoleGroups(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	for _, name := range []string{"valve-1", "valve-2", "motor"} {
		api.Root.Post(api.At("/clients"), object{"username": name}).Want(204)
	}
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	c.do(c.at("groups/new"), "do", "create", "groupname", "g +1", "textname", "G", "roles/0/rolename", "sensor")
	group := c.at("group", "groupname", "g +1")
	c.do(group, "do", "add_members", "usernames", "valve-1\r\nvalve-2\r\nmotor\r\n", "priority", "4")
	c.do(c.at("groups/edit", "groupname", "g +1"), "do", "edit", "textname", "", "textdescription", "D")
	got, _ := one[broker.Group](api, "/groups", "groupname", "g +1")
	if len(got.Clients) != 3 || len(got.Roles) != 1 || *got.TextName != "" || *got.TextDescription != "D" {
		t.Fatalf("group: %+v", got)
	}
	if client, _ := one[broker.Client](api, "/clients", "username", "motor"); client.Groups[0].Priority != 4 {
		t.Errorf("member: %+v", client)
	}
	if page := c.page(c.at("group", "groupname", "g +1", "search", "VALVE")); !strings.Contains(page, "valve-2</a>") || strings.Contains(page, "motor</a>") {
		t.Errorf("members found:\n%s", page)
	}
	if page := c.page(c.at("group", "groupname", "g +1", "size", "25", "offset", "50")); !strings.Contains(page, "motor</a>") || !strings.Contains(page, "1 to 3 of 3") {
		t.Errorf("the page past the last member:\n%s", page)
	}
	c.has(c.at("groups/remove", "groupname", "g +1", "username", "motor"), "motor from group g &#43;1")
	c.do(c.at("groups/remove", "groupname", "g +1", "username", "motor"), "do", "remove_member")
	c.has(c.at("groups/remove", "groupname", "g +1", "rolename", "sensor"), "2 members of the group", "valve-1, valve-2")
	c.do(c.at("groups/remove", "groupname", "g +1", "rolename", "sensor"), "do", "remove_role")
	c.do(group, "do", "add_role", "rolename", "sensor", "priority", "2")
	got, _ = one[broker.Group](api, "/groups", "groupname", "g +1")
	if len(got.Clients) != 2 || len(got.Roles) != 1 || got.Roles[0].Priority != 2 {
		t.Errorf("changed group: %+v", got)
	}
	if status, text := c.post(group, formOf([]string{"do", "add_members", "usernames", "motor\nnobody"})); status != 404 || !strings.Contains(text, "1 client was added. “nobody” was not") {
		t.Errorf("a member that does not exist: %d\n%s", status, text)
	}
	c.do(c.at("groups"), "do", "anonymous", "groupname", "pumps")
	c.has(c.at("groups"), `value="pumps"`, "g &#43;1")
	if page := c.page(c.at("group", "groupname", "pumps")); strings.Contains(page, "groups/delete") || !strings.Contains(page, "cannot be deleted") {
		t.Errorf("the anonymous group is offered for deletion:\n%s", page)
	}
	c.has(c.at("group", "groupname", "g +1"), "groups/delete?groupname=g")
	if status, text := c.post(c.at("groups/delete", "groupname", "pumps"), formOf([]string{"do", "delete"})); status != 400 || !strings.Contains(text, "CONFLICT") {
		t.Errorf("delete the anonymous group: %d\n%s", status, text)
	}
	c.has(c.at("groups/delete", "groupname", "g +1"), "3 members lose their rights", "valve-1")
	c.do(c.at("groups/delete", "groupname", "g +1"), "do", "delete")
	if _, ok := one[broker.Group](api, "/groups", "groupname", "g +1"); ok {
		t.Error("the group was not deleted")
	}
}

// TestConsoleDenied follows a denial to its reason, and allows it.
func TestConsoleDenied(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	account(t, api, "alice", refused("publishClientSend", "a/no"), allowed("publishClientSend", "a/#"))
	api.Root.Post(api.At("/clients"), object{"username": "bob", "roles": []object{{"rolename": "of alice"}}}).Want(204)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	c.has(c.at("denials"), "Nothing was denied")
	alice := join(t, api, 5, "dev", user("alice", "secret"))
	if code := alice.Publish("a/no", "", 1); code < 0x80 {
		t.Fatalf("reason code %#x", code)
	}
	tried := []string{"username", "alice", "clientid", "dev", "action", "publish", "topic", "a/no"}
	denials := c.page(c.at("denials"))
	if !strings.Contains(denials, "<code>a/no</code>") || !strings.Contains(denials, "/check?username=alice") {
		t.Errorf("denials:\n%s", denials)
	}
	check := c.page(c.at("check", tried...))
	for _, want := range []string{"Denied.", `aria-current="true" class="current"`, "decides", "not reached", "of alice"} {
		if !strings.Contains(check, want) {
			t.Errorf("check lacks %q\n%s", want, check)
		}
	}
	c.has(c.at("denials/allow", tried...), "bob", `value="a/no"`, `value="allow-alice"`)
	next := c.Post(c.at("denials/allow", tried...), formOf([]string{"do", "allow", "role", "", "new", "only alice", "acltype", "publishClientSend", "topic", "a/no", "priority", "1"}))
	if c.Want(next, 200, "Allowed.", "only alice"); !strings.Contains(next.Path, "/check?") {
		t.Errorf("allowing leads to %s", next.Path)
	}
	c.has(c.at("check", tried...), "Allowed.", "only alice")
	if v := ask(api, "alice", "dev", "publish", "a/no"); !v.Allowed || v.RoleName != "only alice" {
		t.Errorf("alice: %+v", v)
	}
	if v := ask(api, "bob", "", "publish", "a/no"); v.Allowed {
		t.Errorf("bob gained the right: %+v", v)
	}
	c.do(c.at("denials/allow", "username", "bob", "clientid", "", "action", "publish", "topic", "a/no"),
		"do", "allow", "role", "of alice", "acltype", "publishClientSend", "topic", "a/no", "priority", "1")
	if v := ask(api, "bob", "", "publish", "a/no"); !v.Allowed {
		t.Errorf("bob: %+v", v)
	}
	role, _ := one[broker.Role](api, "/roles", "rolename", "of alice")
	if len(role.ACLs) != 2 {
		t.Errorf("the rule that denied was not replaced: %+v", role)
	}
}

func TestConsoleDefaultAccess(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	c.has(c.at("default-access"), `name="publishClientReceive" value="true" checked`)
	c.do(c.at("default-access"), "do", "save", "publishClientSend", "true", "subscribe", "true")
	var got struct{ ACLs [][]broker.DefaultACL }
	api.Root.Get(api.At("/acldefault")).Want(200).Decode(&got)
	want := []broker.DefaultACL{{ACLType: "publishClientSend", Allow: true}, {ACLType: "publishClientReceive"}, {ACLType: "subscribe", Allow: true}, {ACLType: "unsubscribe"}}
	if !slices.Equal(got.ACLs[0], want) {
		t.Errorf("got %+v", got)
	}
}

func TestConsoleImport(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	export := c.Want(c.Get(c.at("import/export")), 200, "pump-7")
	if got := export.Header.Get("Content-Disposition"); got != "attachment; filename=dynamic-security.json" {
		t.Errorf("Content-Disposition of the export: %q", got)
	}
	for document, want := range map[string]string{"{\n\n}}": "Line 3", "[]": "not a dynamic-security.json", "": "Line 1"} {
		c.Want(c.Upload(c.at("import"), url.Values{"do": {"check"}}, "file", document), 400, want)
	}
	imported := `{"roles":[{"rolename":"sensor","acls":[{"acltype":"subscribePattern","topic":"other/#","allow":true}]}],
"clients":[{"username":"fresh","roles":[{"rolename":"sensor"}]}],"groups":[]}`
	checked := c.Want(c.Upload(c.at("import"), url.Values{"do": {"check"}}, "file", imported), 200, "Add to what is there")
	c.Lacks(checked, "other/#")
	if _, ok := one[broker.Client](api, "/clients", "username", "fresh"); ok {
		t.Fatal("the check imported the file")
	}
	id := hidden(t, checked.Text, "upload")
	status, text := c.post(c.at("import"), url.Values{"do": {"merge"}, "upload": {id}})
	if status != 400 || !strings.Contains(text, "ALREADY_EXISTS") || !strings.Contains(text, id) {
		t.Errorf("a contradiction: %d\n%s", status, text)
	}
	if status, text = c.post(c.at("import"), url.Values{"do": {"replace"}, "upload": {id}}); status != 200 || !strings.Contains(text, "Clients: 1, groups: 0, roles: 1.") {
		t.Errorf("replace: %d\n%s", status, text)
	}
	if _, ok := one[broker.Client](api, "/clients", "username", "fresh"); !ok {
		t.Error("nothing was imported")
	}
	if _, ok := one[broker.Client](api, "/clients", "username", "pump-7"); ok {
		t.Error("nothing was replaced")
	}
	if status, text = c.post(c.at("import"), url.Values{"do": {"merge"}, "upload": {id}}); status != 400 || !strings.Contains(text, "Choose it again") {
		t.Errorf("the same file again: %d\n%s", status, text)
	}
}

// TestConsoleOfViewer opens the pages as a viewer: there are no actions, and those that
// are posted all the same are refused.
func TestConsoleOfViewer(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	var created struct{ ID string }
	api.Root.Post("/api/users", object{"email": "ann@example.com", "password": "password1", "verified": true}).Want(200).Decode(&created)
	api.Root.Put("/api/projects/"+api.Project+"/members/"+created.ID, object{"role": "viewer"}).Want(204)
	c := openConsole(api, "ann@example.com", "password1")
	for _, path := range []string{c.at("clients"), c.at("client", "username", "pump-7"), c.at("groups"), c.at("group", "groupname", "pumps"), c.at("roles"),
		c.at("role", "rolename", "sensor"), c.at("default-access"), c.at("check", "username", "pump-7", "action", "publish", "topic", "no"), c.at("denials")} {
		if page := c.page(path); strings.Contains(page, `name="do"`) || strings.Contains(page, "/new\"") || strings.Contains(page, "/delete?") || strings.Contains(page, "denials/allow") {
			t.Errorf("%s offers an action\n%s", path, page)
		}
	}
	c.Want(c.Get(c.at("import")), 403)
	c.Want(c.Get(c.at("import/export")), 403)
	for path, form := range map[string][]string{
		c.at("clients/new"): {"do", "create", "username", "x"}, c.at("clients/delete", "username", "pump-7"): {"do", "delete"},
		c.at("roles/edit", "rolename", "sensor"): {"do", "edit", "step", "save"}, c.at("default-access"): {"do", "save"}, c.at("groups"): {"do", "anonymous", "groupname", "pumps"},
	} {
		if status, _ := c.post(path, formOf(form)); status != 403 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if _, ok := one[broker.Client](api, "/clients", "username", "pump-7"); !ok {
		t.Error("a viewer deleted the client")
	}
}

// TestConsoleWithoutDynamicSecurity opens the pages of a Mosquitto that has no plugin.
func TestConsoleWithoutDynamicSecurity(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	api := apitest.New(t)
	b := addSetup(t, api, object{"url": "mqtt://" + server.Addr}).id
	c := openConsole(api, apitest.RootEmail, apitest.RootPassword)
	for _, page := range []string{"clients", "groups", "roles", "default-access", "import"} {
		c.has(c.Project("/b/"+b+"/"+page), "This broker does not have it", "per_listener_settings false\n", "plugin_opt_config_file ")
	}
	c.has(c.Project("/b/"+b+"/denials"), "This broker does not have it")
}
