package apitest_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"signalbox/router/apitest"
)

// TestRecordsAreSentBack reads every type of record that an operation can change, sends
// it back unchanged, and reads it once more.
func TestRecordsAreSentBack(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	root, project := api.Root, "/api/projects/"+api.Project
	root.Post(api.At("/clients"), object{"username": "bare"}).Want(204)
	root.Post(api.At("/clients"), object{"username": "bound", "password": "x", "clientid": "c1", "textname": "", "textdescription": "d",
		"roles": []object{{"rolename": "sensor", "priority": 3}}}).Want(204)
	root.Post(api.At("/groups"), object{"groupname": "bare"}).Want(204)
	root.Put(api.At("/groups"), object{"groupname": "pumps", "clients": []object{{"username": "bare"}, {"username": "pump-7"}}}).Want(204)
	root.Post(api.At("/roles"), object{"rolename": "bare"}).Want(204)
	root.Post(api.At("/streams"), object{"streamname": "plain", "sourceTopic": "a", "targetTopic": "b"}).Want(204)
	root.Post(api.At("/streams"), object{"streamname": "kept", "sourceTopic": "c/#", "targetTopic": "", "key": "k", "ttl": 60, "targetqos": 1,
		"query": object{"select": []object{{"source": "[x]", "target": "[y]", "alias": "y"}}, "where": []object{{"operator": ">", "left": "y", "right": 1}}}}).Want(204)
	root.Put(api.At("/streams"), object{"streamname": "kept", "persist": true, "active": false}).Want(204)
	root.Put(api.At("/bridges/http-bridge/config"), object{"connections": []object{{"name": "history", "enabled": false,
		"connection": object{"url": "http://127.0.0.1:9", "token": "s3cret"}}}}).Want(204)
	brokerID := func(body object) string {
		var made struct{ ID string }
		root.Post(project+"/brokers", body).Want(200).Decode(&made)
		return made.ID
	}
	plain := brokerID(object{"name": "plain", "url": "mqtt://127.0.0.1:1"})
	full := brokerID(object{"name": "full", "url": "mqtts://127.0.0.1:1", "description": "d", "username": "u", "password": "p",
		"verify_ca_cert": false, "topictree": false, "clustermode": "hp", "ha": true, "metricsEnabled": false})
	var user, me struct{ ID string }
	root.Post("/api/users", object{"email": "ada@example.com", "password": "12345678", "firstname": "Ada"}).Want(200).Decode(&user)
	root.Get("/api/auth/me").Want(200).Decode(&me)
	root.Put(project+"/members/"+user.ID, object{"role": "editor"}).Want(204)

	for _, c := range []struct{ get, put string }{
		{api.BrokerAt(plain, ""), ""}, {api.BrokerAt(full, ""), ""},
		{api.At("/clients?username=bare"), api.At("/clients")}, {api.At("/clients?username=bound"), api.At("/clients")},
		{api.At("/clients?username=pump-7"), api.At("/clients")}, {api.At("/clients"), api.At("/clients")},
		{api.At("/groups"), api.At("/groups")}, {api.At("/roles"), api.At("/roles")}, {api.At("/streams"), api.At("/streams")},
		{api.At("/streams/detail?streamname=kept"), api.At("/streams")}, {api.At("/acldefault"), ""}, {api.At("/topictree/ttl"), ""},
		{api.At("/bridges/http-bridge/config"), ""}, {api.At("/bridges/kafka-bridge/config"), ""}, {api.At("/bridges/mqtt-bridge/config"), ""},
		{project, ""}, {"/api/auth/me", ""}, {"/api/users/" + user.ID, ""}, {"/api/users/" + me.ID, ""},
		{project + "/members", project + "/members/"},
	} {
		before := root.Get(c.get).Want(200)
		for _, record := range recordsOf(t, before.Body) {
			to := c.put
			switch {
			case to == "":
				to = c.get
			case to == project+"/members/":
				var member struct {
					UserID string `json:"userId"`
				}
				if err := json.Unmarshal(record, &member); err != nil || member.UserID == "" {
					t.Fatalf("member %s: %v", record, err)
				}
				to += member.UserID
			}
			if answer := root.Do("PUT", to, apitest.Text(record)); answer.Status != 204 {
				t.Errorf("PUT %s %s: got %d %s, want 204", to, record, answer.Status, answer.Body)
			}
		}
		if after := root.Get(c.get).Want(200); !sameRecords(t, before.Body, after.Body) {
			t.Errorf("%s sent back changed it:\n%s\n%s", c.get, before.Body, after.Body)
		}
	}
}

// recordsOf returns the records of a response: its elements if it is a list, the inner
// list of a default ACL.
func recordsOf(t *testing.T, body []byte) (records []json.RawMessage) {
	t.Helper()
	if body[0] == '[' {
		if err := json.Unmarshal(body, &records); err != nil {
			t.Fatal(err)
		}
		return records
	}
	var acls struct{ ACLs []json.RawMessage }
	if json.Unmarshal(body, &acls) == nil && acls.ACLs != nil {
		return acls.ACLs
	}
	return []json.RawMessage{body}
}

// sameRecords reports whether two responses are equal, except for what changes by
// itself.
func sameRecords(t *testing.T, before, after []byte) bool {
	t.Helper()
	drop := func(body []byte) any {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatal(err)
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, one := range list {
			if m, ok := one.(map[string]any); ok {
				delete(m, "updated_at")
				delete(m, "last_seen") // of the caller, who has just sent it
				delete(m, "status")
			}
		}
		return v
	}
	x, errX := json.Marshal(drop(before))
	y, errY := json.Marshal(drop(after))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// TestContradictions sends contradictory requests: they are refused, and nothing
// changes.
func TestContradictions(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	before := api.Root.Get(api.At("/acldefault")).Want(200)
	answer := api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribe", "allow": true}, {"acltype": "unsubscribe", "allow": true},
		{"acltype": "subscribe", "allow": false}}).WantError(400, "INVALID_REQUEST")
	if got := answer.Fields(); !slices.Equal(got, []string{"body[2].allow"}) {
		t.Errorf("bad fields: got %q", got)
	}
	if after := api.Root.Get(api.At("/acldefault")); !bytes.Equal(after.Body, before.Body) {
		t.Errorf("a refused change took effect: %s", after.Body)
	}
	api.Root.Put(api.At("/acldefault"), []object{{"acltype": "subscribe", "allow": true}, {"acltype": "subscribe", "allow": true}}).Want(204)

	stream := object{"streamname": "s", "sourceTopic": "a", "query": object{"form": 1, "Where": []any{}, "select": []object{
		{"source": "[x]", "target": "[y]", "function": object{"name": "max", "interval": 3}, "as": "z"}}}}
	answer = api.Root.Post(api.At("/streams"), stream).WantError(400, "INVALID_REQUEST")
	got := answer.Fields()
	slices.Sort(got)
	if want := []string{"body.query.form", "body.query.select[0].as", "body.query.select[0].function.interval"}; !slices.Equal(got, want) {
		t.Errorf("bad fields: got %q, want %q", got, want)
	}
	api.Root.Get(api.At("/streams/detail?streamname=s")).WantError(404, "NOT_FOUND")
}

// TestNullLists leaves the lists of access control unchanged, wherever a list may be
// null.
func TestNullLists(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	sensor(t, api, api.Root)
	read := func() (all string) {
		for _, list := range []string{"/clients", "/groups", "/roles"} {
			all += string(api.Root.Get(api.At(list)).Want(200).Body)
		}
		return all
	}
	before := read()
	api.Root.Put(api.At("/clients"), object{"username": "pump-7", "groups": nil}).Want(204)
	api.Root.Put(api.At("/groups"), object{"groupname": "pumps", "clients": nil, "roles": nil}).Want(204)
	api.Root.Put(api.At("/roles"), object{"rolename": "sensor", "acls": nil}).Want(204)
	if after := read(); after != before {
		t.Errorf("null changed a list:\n%s\n%s", before, after)
	}
}
