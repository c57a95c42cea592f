package apitest_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// addMosquitto adds a real Mosquitto and waits for its connection.
func addMosquitto(t *testing.T, api *apitest.API) (id string) {
	t.Helper()
	server := brokertest.Mosquitto(t)
	id = addBroker(t, api, object{"name": "plant", "url": server.URL, "username": server.AdminUsername, "password": string(server.AdminPassword)})
	waitFor(t, "the connection", func() bool { return brokerRecord(api, id).Status.Connected })
	return id
}

func TestMessagesOfMosquitto(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	at := func(path string) string { return api.BrokerAt(id, path) }
	editor, viewer := api.Token("editor", id), api.Token("viewer", id)

	for topic, payload := range map[string]string{"plant/a": "1", "plant/b": strings.Repeat("x", 1500), "else": "2"} {
		editor.Post(at("/messages"), object{"topic": topic, "payload": payload, "qos": 1, "retain": true}).Want(204)
	}
	editor.Post(at("/messages"), object{"topic": "plant/raw", "payload": "/wA=", "encoding": "base64", "qos": 2, "retain": true}).Want(204)

	var list, one []broker.RetainedMessage
	answer := viewer.Get(at("/messages/retained?filter=plant/%2B&offset=1&count=2")).Want(200)
	answer.Decode(&list)
	if answer.Header.Get("X-Total-Count") != "3" || len(list) != 2 || list[0].Topic != "plant/b" || !list[0].Truncated || list[0].Size != 1500 ||
		len(list[0].Payload) != 1000 || list[1].Payload != "/wA=" || list[1].Encoding != "base64" {
		t.Errorf("list: got %s of %s", answer.Body, answer.Header.Get("X-Total-Count"))
	}
	viewer.Get(at("/messages/retained?topic=plant/b&offset=7")).Want(200).Decode(&one)
	if len(one) != 1 || len(one[0].Payload) != 1500 || one[0].Truncated {
		t.Errorf("one: got %+v", one)
	}
	viewer.Get(at("/messages/retained?topic=nothing")).WantError(404, "NOT_FOUND")
	viewer.Post(at("/messages"), object{"topic": "a"}).WantError(403, "FORBIDDEN")
	viewer.Delete(at("/messages/retained?topic=else")).WantError(403, "FORBIDDEN")

	var deleted handlers.DeletedCount
	editor.Delete(at("/messages/retained?topic=else")).Want(200).Decode(&deleted)
	editor.Delete(at("/messages/retained?topic=else")).WantError(404, "NOT_FOUND")
	if editor.Delete(at("/messages/retained?filter=plant/%23")).Want(200).Decode(&deleted); deleted.Deleted != 3 {
		t.Errorf("deleted %d, want 3", deleted.Deleted)
	}
	if got := strings.TrimSpace(string(viewer.Get(at("/messages/retained")).Want(200).Body)); got != "[]" {
		t.Errorf("left: %s", got)
	}
	editor.Post(at("/messages"), object{"topic": "a", "contentType": "text/plain"}).WantError(400, "INVALID_REQUEST")
	for path, feature := range map[string]string{"/subscriptions": "subscriptions", "/denials": "denials", "/bans": "bans", "/client-inspect": "inspect"} {
		e := viewer.Get(at(path)).WantError(405, "NOT_SUPPORTED").Error()
		if e.Info["feature"] != feature {
			t.Errorf("%s: feature %v, want %s", path, e.Info["feature"], feature)
		}
	}
	if got := brokerRecord(api, id).Capabilities; !slices.Contains(got, broker.CapMessages) || !slices.Contains(got, broker.CapAccessCheck) {
		t.Errorf("capabilities: got %q", got)
	}
}

func TestAccessCheckOfMosquitto(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	root, at := api.Root, func(path string) string { return api.BrokerAt(id, path) }
	root.Post(at("/roles"), object{"rolename": "sensor"}).Want(204)
	root.Put(at("/roles"), object{"rolename": "sensor", "acls": []object{
		{"acltype": "publishClientSend", "topic": "plant/#", "priority": 3, "allow": true}}}).Want(204)
	root.Post(at("/groups"), object{"groupname": "pumps", "roles": []object{{"rolename": "sensor"}}}).Want(204)
	root.Post(at("/clients"), object{"username": "pump-7", "groups": []object{{"groupname": "pumps", "priority": 0}}}).Want(204)

	viewer := api.Token("viewer", id)
	got := strings.TrimSpace(string(viewer.Get(at("/access-check?username=pump-7&action=publish&topic=plant/1")).Want(200).Body))
	want := `{"allowed":true,"acltype":"publishClientSend","reason":"the ACL publishClientSend \"plant/#\" of the role \"sensor\", held through the group \"pumps\", allows it",` +
		`"source":"role","acl":{"acltype":"publishClientSend","topic":"plant/#","priority":3,"allow":true},"rolename":"sensor","via":"group","groupname":"pumps","grouppriority":0}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var v broker.Verdict
	viewer.Get(at("/access-check?username=nobody&action=subscribe&topic=" + url.QueryEscape("a/#"))).Want(200).Decode(&v)
	if v.Allowed || v.Source != broker.DecidedByUnknown {
		t.Errorf("unknown client: %+v", v)
	}
}

// TestToolsNameBadFields uses brokers with different capabilities: the request is
// validated before the broker is called.
func TestToolsNameBadFields(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	past := "2001-01-01T00:00:00Z"
	for _, c := range []struct {
		method, path string
		body         any
		fields       []string
	}{
		{"POST", "/messages", object{"payload": "x"}, []string{"body.topic"}},
		{"POST", "/messages", object{"topic": "a/#", "qos": 3, "responseTopic": "+", "correlationData": "?"}, []string{"body.qos", "body.topic", "body.responseTopic", "body.correlationData"}},
		{"POST", "/messages", object{"topic": "$CONTROL/dynamic-security/v1", "payload": "x"}, []string{"body.topic"}},
		{"POST", "/messages", object{"topic": "$SYS/x"}, []string{"body.topic"}},
		{"POST", "/messages", object{"topic": "$SYSTEM/x", "qos": 3}, []string{"body.qos"}},
		{"POST", "/messages", object{"topic": "a", "payload": "x", "encoding": "base64"}, []string{"body.payload"}},
		{"POST", "/messages", object{"topic": "a", "encoding": "hex"}, []string{"body.encoding"}},
		{"POST", "/messages", object{"topic": "a", "expiry": -1}, []string{"body.expiry"}},
		{"POST", "/messages", object{"topic": "a", "userProperties": []object{{"name": "k"}}}, []string{"body.userProperties[0].value"}},
		{"GET", "/messages/retained?filter=a/%23/b", nil, []string{"query.filter"}},
		{"GET", "/messages/retained?filter=$share/g/a", nil, []string{"query.filter"}},
		{"GET", "/messages/retained?topic=a/%2B", nil, []string{"query.topic"}},
		{"GET", "/messages/retained?offset=-1", nil, []string{"query.offset"}},
		{"DELETE", "/messages/retained", nil, []string{"query.topic"}},
		{"DELETE", "/messages/retained?topic=a&filter=b", nil, []string{"query.filter"}},
		{"DELETE", "/messages/retained?filter=a%23", nil, []string{"query.filter"}},
		{"POST", "/client-inspect/subscriptions", object{"topic": "#/a"}, []string{"body.clientid", "body.topic"}},
		{"POST", "/client-inspect/subscriptions", object{"clientid": "c", "topic": "$share/g", "sendRetain": "often", "subscriptionIdentifier": 268435456}, []string{"body.subscriptionIdentifier", "body.sendRetain", "body.topic"}},
		{"DELETE", "/client-inspect/subscriptions?topic=a%23", nil, []string{"query.clientid", "query.topic"}},
		{"GET", "/subscriptions?filterTarget=payload", nil, []string{"query.filterTarget"}},
		{"GET", "/subscriptions?filterValue=%5B&filterMode=regex", nil, []string{"query.filterValue"}},
		{"GET", "/access-check?action=fly", nil, []string{"query.action", "query.topic"}},
		{"POST", "/bans", object{"kind": "address", "value": "10.0.0", "expires_at": past}, []string{"body.value", "body.expires_at"}},
		{"POST", "/bans", object{"kind": "colour", "value": "", "expires_at": "soon"}, []string{"body.kind", "body.value", "body.expires_at"}},
		{"DELETE", "/bans?kind=address&value=x", nil, []string{"query.value"}},
	} {
		got := api.Root.Do(c.method, api.At(c.path), c.body).WantError(400, "INVALID_REQUEST").Fields()
		slices.Sort(got)
		slices.Sort(c.fields)
		if !slices.Equal(got, c.fields) {
			body, _ := json.Marshal(c.body) // for the message
			t.Errorf("%s %s %s: bad fields %q, want %q", c.method, c.path, body, got, c.fields)
		}
	}
}
