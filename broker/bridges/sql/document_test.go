package sql

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/peertest"
)

// problemPaths sets a configuration that must be refused, and returns the paths of its problems.
func problemPaths(t *testing.T, r *bridgestest.Rig, document string) (all []string) {
	t.Helper()
	err := r.SetBridgeConfig(t.Context(), r.Kind.ID(), json.RawMessage(document))
	wrong, ok := errors.AsType[*broker.Error](err)
	if !ok || wrong.Kind != broker.Invalid {
		t.Fatalf("got %v, want it invalid", err)
	}
	for _, f := range wrong.Fields {
		all = append(all, f.Path)
	}
	slices.Sort(all)
	return all
}

// TestDocument sets documents through the broker, as an operator does.
func TestDocument(t *testing.T) {
	t.Parallel()
	r := bridgestest.Start(t, Kind{}, nil)
	nowhere := &peertest.Database{Driver: "postgresql", Host: "127.0.0.1", Port: 1, Name: "plant", Username: "u", Password: "very secret"}
	sound := configuration(t, nowhere, "kept")
	for name, c := range map[string]struct {
		old, with string
		want      []string
	}{
		"an unknown driver":      {`"driver":"postgresql"`, `"driver":"sqlite"`, []string{"connections[0].connection.driver"}},
		"no host":                {`"hostname":"127.0.0.1",`, ``, []string{"connections[0].connection.hostname"}},
		"a port out of range":    {`"port":1`, `"port":70000`, []string{"connections[0].connection.port"}},
		"an unknown member":      {`"port":1`, `"prot":1`, []string{"connections[0].connection.prot"}},
		"a table in too deep":    {`"target":"kept"`, `"target":"a.b.c"`, []string{"connections[0].topicMappings[0].target"}},
		"no user":                {`"username":"u"`, `"username":""`, []string{"connections[0].connection.credentials.username"}},
		"an unknown conflict":    {`"onConflict":"ignore"`, `"onConflict":"replace"`, []string{"connections[0].topicMappings[0].onConflict"}},
		"a wrong certificate":    {`"port":1`, `"port":1,"tls":{"enabled":true,"caCertificate":"x"}`, []string{"connections[0].connection.tls.caCertificate"}},
		"a schema where none is": {`"driver":"postgresql"`, `"driver":"mariadb","schema":"public"`, []string{"connections[0].connection.schema"}},
	} {
		changed := strings.Replace(sound, c.old, c.with, 1)
		if changed == sound {
			t.Fatalf("%s: %s is not in %s", name, c.old, sound)
		}
		if diff := cmp.Diff(c.want, problemPaths(t, r, changed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	r.Set(sound)
	shown, err := r.GetBridgeConfig(t.Context(), r.Kind.ID())
	if err != nil || strings.Contains(string(shown), nowhere.Password) {
		t.Fatalf("got %s and %v, want it without the password", shown, err)
	}
	r.Set(string(shown))
	for _, member := range []string{`"127.0.0.1"`, `"postgresql"`} {
		elsewhere := strings.Replace(string(shown), member, map[string]string{`"127.0.0.1"`: `"127.0.0.2"`, `"postgresql"`: `"mysql"`}[member], 1)
		if diff := cmp.Diff([]string{"connections[0].connection.credentials.password"}, problemPaths(t, r, elsewhere)); diff != "" {
			t.Errorf("the password kept with another %s (-want +got):\n%s", member, diff)
		}
	}
}
