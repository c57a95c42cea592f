package apitest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
)

// TestNamesThatBrokersTruncate are refused for every kind of broker: Mosquitto
// truncates at U+0000, and half a surrogate pair is decoded as another name.
func TestNamesThatBrokersTruncate(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	mosquitto := addMosquitto(t, api)
	for _, id := range []string{api.Embedded, mosquitto} {
		at := func(path string) string { return api.BrokerAt(id, path) }
		api.Root.Post(at("/clients"), object{"username": "victim", "password": "pw"}).Want(204)
		for _, c := range []struct{ method, path, body, field string }{
			{"PUT", "/clients", `{"username":"victim\u0000x","password":"owned"}`, "body.username"},
			{"PUT", "/clients", `{"username":"victim","password":"pw\u0000x"}`, "body.password"},
			{"PUT", "/clients", `{"username":"victim","clientid":"a\u0000b"}`, "body.clientid"},
			{"PUT", "/clients/enable", `{"username":"victim\u0000","enable":false}`, "body.username"},
			{"POST", "/clients", `{"username":"half \ud800","password":"pw"}`, "body.username"},
			{"POST", "/clients", `{"username":"half \udc00\ud800","password":"pw"}`, "body.username"},
			{"POST", "/groups", `{"groupname":"g\u0000"}`, "body.groupname"},
			{"POST", "/groups", `{"groupname":"g","roles":[{"rolename":"\ud800"}]}`, "body.roles[0].rolename"},
			{"POST", "/roles", `{"rolename":"r\u0000"}`, "body.rolename"},
			{"POST", "/roles", `{"rolename":"r","acls":[{"acltype":"publishClientSend","topic":"a\u0000","priority":0,"allow":true}]}`, "body.acls[0].topic"},
			{"POST", "/messages", `{"topic":"a\u0000b","payload":"x"}`, "body.topic"},
			{"POST", "/streams", `{"streamname":"s","sourceTopic":"a\u0000b"}`, "body.sourceTopic"},
			{"DELETE", "/clients?username=victim%00x", "", "query.username"},
			{"DELETE", "/roles?rolename=r%00", "", "query.rolename"},
			{"DELETE", "/groups?groupname=g%00", "", "query.groupname"},
		} {
			var body any
			if c.body != "" {
				body = apitest.Text(c.body)
			}
			a := api.Root.Do(c.method, at(c.path), body).WantError(400, "INVALID_REQUEST")
			if !slices.Contains(a.Fields(), c.field) {
				t.Errorf("%s %s %s: the fields %q do not name %s", c.method, c.path, c.body, a.Fields(), c.field)
			}
		}
		if got := strings.TrimSpace(string(api.Root.Get(at("/clients?filterMode=contains&filterValue=half")).Want(200).Body)); got != "[]" {
			t.Errorf("created: %s", got)
		}
		api.Root.Post(at("/clients"), apitest.Text(`{"username":"whole \ud83d\ude00","password":"pw"}`)).Want(204)
		api.Root.Get(at("/clients?username=" + url.QueryEscape("whole 😀"))).Want(200)
		api.Root.Post(at("/messages"), apitest.Text(`{"topic":"a","payload":"x\u0000y"}`)).Want(204)
	}
	if !mqtttest.Accepts(t, strings.TrimPrefix(brokerRecord(api, mosquitto).URL, "mqtt://"), "victim", "pw") {
		t.Error("the victim cannot log in any more")
	}
}

// TestUnknownReferences are not found, however the broker handles them, and nothing is
// changed.
func TestUnknownReferences(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	many := make([]object, 40)
	for i := range many {
		many[i] = object{"username": "none"}
	}
	for _, id := range []string{api.Embedded, addMosquitto(t, api)} {
		at := func(path string) string { return api.BrokerAt(id, path) }
		api.Root.Post(at("/clients"), object{"username": "u", "password": "pw"}).Want(204)
		api.Root.Post(at("/groups"), object{"groupname": "g"}).Want(204)
		none, role := []object{{"username": "none"}}, []object{{"rolename": "none"}}
		for _, c := range []struct {
			method, path string
			body         object
		}{
			{"PUT", "/groups", object{"groupname": "g", "clients": none}},
			{"PUT", "/groups", object{"groupname": "g", "clients": append([]object{{"username": "u"}}, none...)}},
			{"PUT", "/groups", object{"groupname": "g", "clients": many}},
			{"PUT", "/groups", object{"groupname": "g", "roles": role}},
			{"POST", "/groups", object{"groupname": "h", "roles": role}},
			{"PUT", "/clients", object{"username": "u", "roles": role}},
			{"PUT", "/clients", object{"username": "u", "groups": []object{{"groupname": "none"}}}},
			{"POST", "/clients", object{"username": "v", "groups": []object{{"groupname": "g"}, {"groupname": "none"}}}},
		} {
			api.Root.Do(c.method, at(c.path), c.body).WantError(404, "NOT_FOUND")
		}
		want := `[{"groupname":"g","clients":[],"roles":[]}]`
		if got := strings.TrimSpace(string(api.Root.Get(at("/groups")).Want(200).Body)); got != want {
			t.Errorf("groups: got %s, want %s", got, want)
		}
		api.Root.Put(at("/groups"), object{"groupname": "g", "clients": []object{{"username": "u"}}}).Want(204)
	}
}

// TestRolesOfMosquitto: what Mosquitto would drop is refused, and what would crash it
// is done in another way.
func TestRolesOfMosquitto(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	at := func(path string) string { return api.BrokerAt(id, path) }
	for _, method := range []string{"POST", "PUT"} {
		e := api.Root.Do(method, at("/roles"), object{"rolename": "r", "allowwildcardsubs": false}).WantError(405, "NOT_SUPPORTED").Error()
		if !strings.Contains(e.Message, "allowwildcardsubs") {
			t.Errorf("the member is not named: %q", e.Message)
		}
		api.Root.Do(method, at("/roles"), object{"rolename": "r", "allowwildcardsubs": true}).Want(204)
	}
	api.Root.Post(at("/clients"), object{"username": "u", "password": "pw", "roles": []object{{"rolename": "r"}}}).Want(204)
	api.Root.Post(at("/groups"), object{"groupname": "g", "roles": []object{{"rolename": "r"}}}).Want(204)
	api.Root.Delete(at("/roles?rolename=r")).Want(204)
	api.Root.Delete(at("/roles?rolename=r")).WantError(404, "NOT_FOUND")
	api.Root.Delete(at("/roles?rolename=admin")).WantError(400, "CONFLICT")
	brokertest.WaitFor(t, "the broker to answer", func() bool { return brokerRecord(api, id).Status.Connected })
	for _, list := range []string{"/clients?filterTarget=rolename&filterValue=r&filterMode=equals", "/groups?filterTarget=rolename&filterValue=r&filterMode=equals"} {
		if got := strings.TrimSpace(string(api.Root.Get(at(list)).Want(200).Body)); got != "[]" {
			t.Errorf("the role is still held: %s", got)
		}
	}
}
