package apitest_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// bridgeCalls are one valid call of each operation about a bridge.
var bridgeCalls = []struct {
	method, path string
	body         any
	connection   bool // names one that must exist
	role         string
}{
	{"GET", "/config", nil, false, "viewer"},
	{"PUT", "/config", object{"connections": []object{}}, false, "viewer"},
	{"GET", "/status", nil, false, "viewer"},
	{"GET", "/schema", nil, false, "viewer"},
	{"POST", "/test", object{"connections": []object{}}, false, "editor"},
	{"GET", "/connections/none/deadletters", nil, true, "viewer"},
	{"POST", "/connections/none/deadletters/retry", nil, true, "editor"},
	{"DELETE", "/connections/none/deadletters", nil, true, "editor"},
}

// TestBridgesRefused calls each operation where it must not succeed.
func TestBridgesRefused(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	down := addBroker(t, api, object{"name": "down", "url": "mqtt://127.0.0.1:1"})
	elsewhere, viewer := api.Token("editor", down), api.Token("viewer")
	unknown := "0197c10d-0000-7000-8000-00000000dead"
	for _, c := range bridgeCalls {
		path := bridgeAt(api, api.Embedded, c.path)
		if c.connection {
			api.Root.Do(c.method, path, c.body).WantError(404, "NOT_FOUND")
		} else if answer := api.Root.Do(c.method, path, c.body); answer.Status > 204 {
			t.Errorf("%s %s: %d %s", c.method, path, answer.Status, answer.Body)
		}
		for _, bridge := range []string{"none-bridge", "http", "%23", "http-bridge%2Fv1"} {
			api.Root.Do(c.method, strings.Replace(path, "http-bridge", bridge, 1), c.body).WantError(404, "NOT_FOUND")
		}
		api.Anonymous().Do(c.method, path, c.body).WantError(401, "UNAUTHORIZED")
		elsewhere.Do(c.method, path, c.body).WantError(403, "FORBIDDEN")
		if c.role == "editor" {
			viewer.Do(c.method, path, c.body).WantError(403, "FORBIDDEN")
		}
		api.Root.Do(c.method, strings.Replace(path, api.Embedded, unknown, 1), c.body).WantError(404, "NOT_FOUND")
		api.Root.Do(c.method, strings.Replace(path, api.Project, unknown, 1), c.body).WantError(404, "NOT_FOUND")
		api.Root.Do("PATCH", path, nil).WantError(405, "METHOD_NOT_ALLOWED")
	}
	api.Anonymous().Get(api.At("/bridges")).WantError(401, "UNAUTHORIZED")
	elsewhere.Get(api.At("/bridges")).WantError(403, "FORBIDDEN")
	api.Root.Do("PATCH", api.At("/bridges"), nil).WantError(405, "METHOD_NOT_ALLOWED")
}

// TestBridgesReadOnly checks that viewers cannot write if that is configured.
func TestBridgesReadOnly(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, apitest.ViewerReadOnly)
	viewer := api.Token("viewer")
	for _, c := range bridgeCalls {
		if path := bridgeAt(api, api.Embedded, c.path); c.method != "GET" {
			viewer.Do(c.method, path, c.body).WantError(403, "FORBIDDEN")
		} else if !c.connection {
			viewer.Get(path).Want(200)
		}
	}
}

// TestBadBridgeConfigs changes nothing and names every invalid member.
func TestBadBridgeConfigs(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t), newHTTPTarget(t)
	path := bridgeAt(api, api.Embedded, "/config")
	api.Root.Put(path, toHTTPTarget(server.URL, bridgeSecret, nil)).Want(204)
	was := string(api.Root.Get(path).Want(200).Body)
	changed := func(change func(connection object)) object {
		config := toHTTPTarget(server.URL, "x", nil)
		change(config["connections"].([]object)[0])
		return config
	}
	for name, c := range map[string]struct {
		body   any
		fields []string
	}{
		"no object":       {apitest.Text("[]"), []string{"body"}},
		"null":            {apitest.Text("null"), []string{"body"}},
		"no body":         {nil, []string{"body"}},
		"no JSON":         {apitest.Text("{"), []string{"body"}},
		"unknown members": {object{"connections": []object{}, "connection": object{}}, []string{"body.connection"}},
		"another version": {object{"version": "v2", "connections": []object{}}, []string{"body.version"}},
		"two problems": {changed(func(c object) { c["options"] = object{"maxQueuedMessages": 0, "whenFull": "explode"} }),
			[]string{"body.connections[0].options.maxQueuedMessages", "body.connections[0].options.whenFull"}},
		"no URL": {changed(func(c object) { c["connection"] = object{} }), []string{"body.connections[0].connection.url"}},
		"a bad filter": {changed(func(c object) {
			c["topicMappings"] = []object{{"name": "m", "mqttTopics": []string{"a", "#/b"}}}
		}), []string{"body.connections[0].topicMappings[0].mqttTopics[1]"}},
		"an unknown schema mapping": {changed(func(c object) {
			c["topicMappings"] = []object{{"name": "m", "mqttTopics": []string{"a"}, "schemaMapping": "none"}}
		}), []string{"body.connections[0].topicMappings[0].schemaMapping"}},
		"a secret for another address": {toHTTPTarget("http://127.0.0.1:9", mask, nil), []string{"body.connections[0].connection.token"}},
	} {
		for _, to := range []string{"/config", "/test"} {
			if to == "/test" && c.body == nil {
				continue
			}
			method := map[string]string{"/config": "PUT", "/test": "POST"}[to]
			got := api.Root.Do(method, bridgeAt(api, api.Embedded, to), c.body).WantError(400, "INVALID_REQUEST").Fields()
			slices.Sort(got)
			if !slices.Equal(got, c.fields) {
				t.Errorf("%s, %s: bad fields %q, want %q", name, to, got, c.fields)
			}
		}
	}
	api.Root.Put(path, apitest.Text(`{"connections":[],"x":"`+strings.Repeat("x", 1<<20)+`"}`)).WantError(400, "PAYLOAD_TOO_LARGE")
	if now := string(api.Root.Get(path).Want(200).Body); now != was {
		t.Errorf("the configuration became %s", now)
	}
}
