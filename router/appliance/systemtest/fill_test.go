package systemtest

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// writeManyClients writes a dynamic-security.json of Mosquitto whose clients have passwords of
// their own, which are cheap to check.
func writeManyClients(t *testing.T, n int) (path string) {
	t.Helper()
	const lines = 100
	clients, members := make([]object, n), make([][]object, lines)
	for i := range clients {
		name := fmt.Sprintf("client-%06d", i)
		salt := sha512.Sum512([]byte(name))
		hash, err := pbkdf2.Key(sha512.New, passwordOf(name), salt[:12], 1, sha512.Size)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = object{"username": name, "textname": fmt.Sprint("Meter ", i), "roles": []object{{"rolename": "meter"}},
			"salt": salt[:12], "password": hash, "iterations": 1}
		members[i%lines] = append(members[i%lines], object{"username": name})
	}
	groups := make([]object, lines)
	for i := range groups {
		groups[i] = object{"groupname": fmt.Sprint("line-", i), "clients": members[i]}
	}
	text, err := json.Marshal(object{"clients": clients, "groups": groups, "roles": []object{{"rolename": "meter",
		"acls": []object{{"acltype": "publishClientSend", "topic": "#", "allow": true}}}}})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "dynamic-security.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// retain stores retained messages, a thousand for each site. They have several publishers,
// since each has a quota, with the role of writeManyClients.
func (c *caller) retain(t *testing.T, address string, n int) {
	t.Helper()
	const each, together = 400_000, 1000
	var publisher *mqtttest.Client
	for i := 0; i < n; i += together {
		if i%each == 0 {
			name := fmt.Sprint("publisher-", i/each)
			c.must(t, "POST", c.at("/clients"), object{"username": name, "password": mqttPassword, "roles": []object{{"rolename": "meter"}}}, nil)
			publisher = mqtttest.Dial(t, "mqtt://"+address, nil, 4)
			publisher.Connect(mqtttest.WithID(name), mqtttest.As(name, mqttPassword), mqtttest.KeepAlive(0))
		}
		var sent []byte
		for k := range min(together, n-i) {
			sent = packet.AppendPublish(sent, packet.Message{Topic: fmt.Appendf(nil, "site/%06d/%d", i/together, k), Payload: []byte(`{"pressure": 4.2}`),
				ID: uint16(1 + k), QoS: 1, Retain: true})
		}
		if err := publisher.TrySend(sent); err != nil {
			t.Fatal(err)
		}
		for range min(together, n-i) {
			publisher.Want(packet.Puback)
		}
	}
}

// populated is what populate has created and what a later test needs.
type populated struct {
	token string // of the project, for reading
	id    string // of a broker connection
}

// farBroker is the broker connection of populate.
var farBroker = object{"name": "plant", "url": "mqtt://127.0.0.1:1", "username": "u", "password": "hush", "description": "far away"}

// populate creates an object of each kind: access control with a disabled client, a user, a
// project, a token and a broker connection.
func (c *caller) populate(t testing.TB) populated {
	t.Helper()
	c.sensor(t, "pump-7", "secret")
	c.must(t, "PUT", c.at("/clients/enable"), object{"username": "pump-7", "enable": false}, nil)
	c.must(t, "PUT", c.at("/acldefault"), []object{{"acltype": "subscribe", "allow": true}}, nil)
	c.must(t, "POST", "/api/users", object{"firstname": "Ada", "lastname": "L", "email": "ada@example.com", "password": "engine no. 1"}, nil)
	c.must(t, "POST", "/api/projects", object{"name": "second", "description": "of two"}, nil)
	var token struct{ Token string }
	c.must(t, "POST", c.inProject("/tokens"), object{"name": "ci", "role": "viewer", "type": "unrestricted", "brokers": []string{}}, &token)
	var id struct{ ID string }
	c.must(t, "POST", c.inProject("/brokers"), farBroker, &id)
	return populated{token.Token, id.ID}
}

// wantPopulated checks that what populate has created works: the passwords and the token are
// accepted, and the password of the connection is stored.
func (c *caller) wantPopulated(t testing.TB, p *service, want populated) {
	t.Helper()
	signIn(t, p, "ada@example.com", "engine no. 1")
	viewer := *c
	viewer.url, viewer.token = p.API, want.token
	viewer.must(t, "GET", c.at("/roles"), nil, nil)
	var record struct {
		Name, URL, Description string
		HasPassword            bool
	}
	c.must(t, "GET", c.inProject("/brokers/"+want.id), nil, &record)
	if record.Name != "plant" || record.URL != "mqtt://127.0.0.1:1" || record.Description != "far away" || !record.HasPassword {
		t.Errorf("broker connection: got %+v, want %v", record, farBroker)
	}
	if mqtttest.Accepts(t, p.MQTT, "pump-7", "secret") {
		t.Error("a disabled client gets in")
	}
}
