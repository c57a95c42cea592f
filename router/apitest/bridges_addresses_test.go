package apitest_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/router/apitest"
)

// complete fails the test if a kind has a secret that no target uses.
func complete(t *testing.T, api *apitest.API, kind string, targets []object) {
	t.Helper()
	schema := schemaOf(api, kind)
	for _, path := range schema.marked("writeOnly") {
		if !slices.ContainsFunc(targets, func(o object) bool { return valueAt(o, path) != nil }) {
			t.Errorf("%s: the secret %s is not tried", kind, strings.Join(path, "."))
		}
	}
}

// bridgeSchema is one of a kind, as it is shown.
type bridgeSchema struct{ connection, defs object }

func schemaOf(api *apitest.API, kind string) bridgeSchema {
	var whole object
	api.Root.Get(api.At("/bridges/" + kind + "/schema")).Want(200).Decode(&whole)
	defs := whole["$defs"].(object)
	return bridgeSchema{defs["connection"].(object)["properties"].(object)["connection"].(object), defs}
}

// marked returns the paths that have a mark.
func (s bridgeSchema) marked(mark string) (paths [][]string) {
	var walk func(o object, path []string)
	walk = func(o object, path []string) {
		if o[mark] == true {
			paths = append(paths, slices.Clone(path))
		}
		if ref, ok := o["$ref"].(string); ok {
			walk(s.defs[strings.TrimPrefix(ref, "#/$defs/")].(object), path)
		}
		if more, ok := o["additionalProperties"].(object); ok {
			walk(more, append(path, "X-Key"))
		}
		members, _ := o["properties"].(object)
		for name, member := range members {
			walk(member.(object), append(path, name))
		}
	}
	walk(s.connection, nil)
	return paths
}

// valueAt returns the value at a path, nil for none.
func valueAt(o object, path []string) any {
	v := any(o)
	for _, name := range path {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[name]
	}
	return v
}

// TestSecretsStayWhereTheyAre tries to make each kind send its secrets to another
// address.
func TestSecretsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	certificate, key := newCertificate(t)
	for kind, targets := range withSecrets("127.0.0.1:1", certificate, key) {
		schema := schemaOf(api, kind)
		at := func(path string) string { return api.At("/bridges/" + kind + path) }
		refused := func(what, why string, target object, name string) {
			t.Helper()
			config := connectionsTo(kind, []string{name}, []object{target})
			for _, answer := range []*apitest.Response{api.Root.Put(at("/config"), config), api.Root.Post(at("/test"), config)} {
				if answer.WantError(400, "INVALID_REQUEST"); !strings.Contains(string(answer.Body), why) {
					t.Errorf("%s with %s is answered with %s", kind, what, answer.Body)
				}
			}
		}
		for _, target := range targets {
			api.Root.Put(at("/config"), connectionsTo(kind, []string{"a"}, []object{target})).Want(204)
			var stored struct{ Connections []struct{ Connection object } }
			shown := func() object {
				stored.Connections = nil
				api.Root.Get(at("/config")).Want(200).Decode(&stored)
				return stored.Connections[0].Connection
			}
			for _, path := range schema.marked("x-address") {
				o := shown()
				alter(o, path)
				refused("another "+strings.Join(path, "."), "must be entered again", o, "a")
			}
			refused("another name", "no secret is stored", shown(), "b")
			api.Root.Put(at("/config"), connectionsTo(kind, []string{"a"}, []object{shown()})).Want(204)
			api.Root.Put(at("/config"), object{"connections": []object{}}).Want(204)
			refused("nothing stored", "no secret is stored", stored.Connections[0].Connection, "a")
		}
	}
}

// alter sets another value at a path.
func alter(o object, path []string) {
	for _, name := range path[:len(path)-1] {
		if o[name] == nil {
			o[name] = object{}
		}
		o = o[name].(object)
	}
	name := path[len(path)-1]
	switch v := o[name].(type) {
	case nil:
		if o[name] = any("other"); name == "verify" {
			o[name] = false
		} else if name == "enabled" {
			o[name] = true
		} else if name == "port" {
			o[name] = 2
		}
	case string:
		o[name] = v + "x"
	case bool:
		o[name] = !v
	case float64:
		o[name] = v + 1
	case []any:
		o[name] = append([]any{"127.0.0.1:2"}, v...)
	}
}
