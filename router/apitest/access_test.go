package apitest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
)

type object = map[string]any

// sensor creates, as a viewer, a role, a group and a client that may publish to plant/#
// and subscribe to cmd/#.
func sensor(t *testing.T, api *apitest.API, as *apitest.Caller) {
	t.Helper()
	as.Post(api.At("/roles"), object{"rolename": "sensor", "textname": "Sensors"}).Want(204)
	as.Put(api.At("/roles"), object{"rolename": "sensor", "acls": []object{
		{"acltype": "publishClientSend", "topic": "plant/#", "priority": 0, "allow": true},
		{"acltype": "subscribePattern", "topic": "cmd/#", "priority": 0, "allow": true},
	}}).Want(204)
	as.Post(api.At("/groups"), object{"groupname": "pumps", "textname": "Pumps"}).Want(204)
	as.Put(api.At("/groups"), object{"groupname": "pumps", "roles": []object{{"rolename": "sensor"}}}).Want(204)
	as.Post(api.At("/clients"), object{"username": "pump-7", "password": "secret", "groups": []object{{"groupname": "pumps"}}}).Want(204)
}

func TestViewerTokenManagesAccess(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	viewer := api.Token("viewer")
	sensor(t, api, viewer)

	pump := mqtttest.Join(t, api.MQTT, "pump-7", "secret")
	watcher := mqtttest.Join(t, api.MQTT, "pump-7", "secret")
	if code := watcher.SubscribeCode(t, "cmd/#"); code != 1 {
		t.Errorf("SUBACK of cmd/#: got %d, want 1", code)
	}
	if code := watcher.SubscribeCode(t, "plant/#"); code != 0x80 {
		t.Errorf("SUBACK of plant/#: got %#x, want 0x80", code)
	}

	var clients []broker.Client
	viewer.Get(api.At("/clients?username=pump-7")).Want(200).Decode(&clients)
	if len(clients) != 1 || len(clients[0].Connections) != 2 || clients[0].Connections[0].Address != "127.0.0.1" {
		t.Errorf("record of pump-7 with two connections: got %+v", clients)
	}

	viewer.Put(api.At("/clients/enable"), object{"username": "pump-7", "enable": false}).Want(204)
	pump.WantLost(t)
	watcher.WantLost(t)
	if mqtttest.Accepts(t, api.MQTT, "pump-7", "secret") {
		t.Error("a disabled client could connect")
	}
	viewer.Get(api.At("/clients?username=pump-7")).Want(200).Decode(&clients)
	if !clients[0].Disabled {
		t.Error("the record does not say disabled")
	}
	viewer.Put(api.At("/clients/enable"), object{"username": "pump-7", "enable": true}).Want(204)
	mqtttest.Join(t, api.MQTT, "pump-7", "secret")
}

func TestListClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	for i := range 5 {
		api.Root.Post(api.At("/clients"), object{"username": fmt.Sprintf("valve-%d", i), "clientid": fmt.Sprintf("V%d", i)}).Want(204)
	}
	for _, c := range []struct {
		name, query string
		total       string
		want        []string
	}{
		{"all names", "verbose=false", "7", []string{"admin", "pump-7", "valve-0", "valve-1", "valve-2", "valve-3", "valve-4"}},
		{"a page", "verbose=false&offset=2&count=2", "7", []string{"valve-0", "valve-1"}},
		{"none", "verbose=false&count=0", "7", []string{}},
		{"past the end", "verbose=false&offset=50", "7", []string{}},
		{"contains ignores case", "verbose=false&filterValue=LVE-&count=1", "5", []string{"valve-0"}},
		{"equals minds case", "verbose=false&filterValue=Pump-7&filterMode=equals", "0", []string{}},
		{"startsWith", "verbose=false&filterValue=pu&filterMode=startsWith", "1", []string{"pump-7"}},
		{"endsWith", "verbose=false&filterValue=-4&filterMode=endsWith", "1", []string{"valve-4"}},
		{"regex", "verbose=false&filterValue=%5Ev.*%5B13%5D%24&filterMode=regex", "2", []string{"valve-1", "valve-3"}},
		{"by client id", "verbose=false&filterValue=v3&filterTarget=clientid", "1", []string{"valve-3"}},
		{"by group", "verbose=false&filterValue=pumps&filterTarget=groupname", "1", []string{"pump-7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := api.Root.Get(api.At("/clients?" + c.query)).Want(200)
			var names []string
			answer.Decode(&names)
			if !slices.Equal(names, c.want) || names == nil {
				t.Errorf("got %q, want %q", names, c.want)
			}
			if got := answer.Header.Get("X-Total-Count"); got != c.total {
				t.Errorf("X-Total-Count: got %q, want %q", got, c.total)
			}
		})
	}
	for query, field := range map[string]string{
		"count=-2": "query.count", "offset=-1": "query.offset", "count=x": "query.count", "verbose=maybe": "query.verbose",
		"filterValue=x&filterMode=fuzzy": "query.filterMode", "filterValue=x&filterTarget=password": "query.filterTarget",
		"filterValue=%5B&filterMode=regex": "query.filterValue",
	} {
		t.Run("refuses "+query, func(t *testing.T) {
			got := api.Root.Get(api.At("/clients?"+query)).WantError(400, "INVALID_REQUEST")
			if fields := got.Fields(); !slices.Equal(fields, []string{field}) {
				t.Errorf("bad fields: got %q, want %q", fields, field)
			}
		})
	}
	api.Root.Get(api.At("/clients?username=nobody")).WantError(404, "NOT_FOUND")
}

func TestClientRecordRoundTrip(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	api.Root.Put(api.At("/clients"), object{"username": "pump-7", "textname": "Pump", "textdescription": nil, "groups": nil,
		"roles": []object{{"rolename": "sensor", "priority": 5}}}).Want(204)

	want := `[{"username":"pump-7","textname":"Pump","disabled":false,"roles":[{"rolename":"sensor","priority":5}],"groups":[{"groupname":"pumps"}],"connections":[]}]`
	record := api.Root.Get(api.At("/clients?username=pump-7")).Want(200)
	if got := string(record.Body); got != want && got != want+"\n" {
		t.Errorf("record: got %s, want %s", got, want)
	}
	var records []json.RawMessage
	record.Decode(&records)
	api.Root.Put(api.At("/clients"), apitest.Text(records[0])).Want(204)
	if again := api.Root.Get(api.At("/clients?username=pump-7")); string(again.Body) != string(record.Body) {
		t.Errorf("a record sent back changed: got %s, want %s", again.Body, record.Body)
	}
	api.Root.Put(api.At("/clients"), object{"username": "pump-7", "roles": nil}).WantError(400, "INVALID_REQUEST")
	api.Root.Put(api.At("/clients"), object{"username": "nobody"}).WantError(404, "NOT_FOUND")
	api.Root.Post(api.At("/clients"), object{"username": "pump-7"}).WantError(400, "ALREADY_EXISTS")
	api.Root.Delete(api.At("/clients?username=pump-7")).Want(204)
	api.Root.Delete(api.At("/clients?username=pump-7")).WantError(404, "NOT_FOUND")
}

func TestModifyRoleNamesEveryBadField(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/roles"), object{"rolename": "r"}).Want(204)
	answer := api.Root.Put(api.At("/roles"), object{"rolename": "r", "acls": []object{
		{"acltype": "publish", "topic": "a", "priority": 0, "allow": true},
		{"acltype": "publishClientSend", "topic": "", "priority": 1.5, "allow": "yes"},
		{"acltype": "publishClientSend", "topic": "a/#/b"},
	}}).WantError(400, "INVALID_REQUEST")
	fields := answer.Fields()
	for _, want := range []string{"body.acls[0].acltype", "body.acls[1].topic", "body.acls[1].priority",
		"body.acls[1].allow", "body.acls[2].priority", "body.acls[2].allow"} {
		if !slices.Contains(fields, want) {
			t.Errorf("%s is not named in %q", want, fields)
		}
	}
	var roles []broker.Role
	api.Root.Get(api.At("/roles?filterValue=r&filterMode=equals")).Want(200).Decode(&roles)
	if len(roles) != 1 || len(roles[0].ACLs) != 0 {
		t.Errorf("a refused change took effect: %+v", roles)
	}
	twice := object{"acltype": "subscribeLiteral", "topic": "a", "priority": 0, "allow": true}
	api.Root.Put(api.At("/roles"), object{"rolename": "r", "acls": []object{twice, twice}}).WantError(400, "INVALID_REQUEST")
}

func TestDefaultACLAccess(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribe", "allow": true}}).Want(204)
	want := `{"acls":[[{"acltype":"publishClientSend","allow":false},{"acltype":"publishClientReceive","allow":true},` +
		`{"acltype":"subscribe","allow":true},{"acltype":"unsubscribe","allow":true}]]}`
	if got := string(api.Root.Get(api.At("/acldefault")).Want(200).Body); got != want && got != want+"\n" {
		t.Errorf("got %s, want %s", got, want)
	}
	api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribeLiteral", "allow": true}}).WantError(400, "INVALID_REQUEST")
	api.Root.Put(api.At("/acldefault"), object{"acls": []object{}}).WantError(400, "INVALID_REQUEST")
}

func TestImportAndExportAccess(t *testing.T) {
	t.Parallel()
	from, to := apitest.New(t), apitest.New(t)
	sensor(t, from, from.Root)
	document := from.Root.Get(from.At("/access/export")).Want(200)

	answer := to.Root.Post(to.At("/access/import"), apitest.Text(document.Body))
	if e := answer.WantError(400, "ALREADY_EXISTS").Error(); e.Message == "" {
		t.Error("the collision is not explained")
	}
	if mqtttest.Accepts(t, to.MQTT, "pump-7", "secret") {
		t.Error("half of a refused import took effect")
	}
	var report broker.ImportReport
	to.Root.Post(to.At("/access/import?replace=true"), apitest.Text(document.Body)).Want(200).Decode(&report)
	if report.Clients != 2 || report.Groups != 1 || report.Roles != 2 {
		t.Errorf("report: got %+v, want 2 clients, 1 group, 2 roles", report)
	}
	mqtttest.Join(t, to.MQTT, "pump-7", "secret")
	to.Token("editor").Get(to.At("/access/export")).WantError(403, "FORBIDDEN")
}
