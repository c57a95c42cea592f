package remote

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ofAnother is a configuration as other brokers return it.
const ofAnother = `{"connections":[{"name":"a","connection":{"hostname":"h","port":27017.0,"credentials":{"username":"u","password":"s3cret"}},` +
	`"options":{"apiToken":"t0ken","tokenUrl":"https://x"}},` +
	`{"name":"b","connection":{"connectionURI":"mongodb://u:p@ss@h:1/db?x=1"},"headers":[{"name":"Authorization","value":"v"}]}],"licenseSecret":"l"}`

func TestMasked(t *testing.T) {
	t.Parallel()
	got := string(masked(json.RawMessage(ofAnother)))
	want := `{"connections":[{"connection":{"credentials":{"password":"********","username":"u"},"hostname":"h","port":27017.0},"name":"a",` +
		`"options":{"apiToken":"********","tokenUrl":"https://x"}},` +
		`{"connection":{"connectionURI":"mongodb://u:********@h:1/db?x=1"},"headers":[{"name":"Authorization","value":"v"}],"name":"b"}],"licenseSecret":"********"}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, plain := range []string{`{"b":1, "a":"<x>","n":1.50,"password":"","url":"mqtt://u@h"}`, `{"password":"********"}`, `[`, `5`} {
		if got := string(masked(json.RawMessage(plain))); got != plain {
			t.Errorf("%s became %s", plain, got)
		}
	}
}

func TestUnmasked(t *testing.T) {
	t.Parallel()
	shown := string(masked(json.RawMessage(ofAnother)))
	for _, c := range []struct{ name, from, to, bad string }{
		{"nothing is changed", "", "", ""},
		{"something harmless is changed", `"tokenUrl":"https://x"`, `"tokenUrl":"https://y"`, ""},
		{"one secret is changed", `"apiToken":"********"`, `"apiToken":"new"`, ""},
		{"an entry moves", `"name":"a"`, `"name":"a","x":1`, ""},
		{"an address is changed", `"hostname":"h"`, `"hostname":"evil"`, "connections[0].connection.credentials.password connections[0].options.apiToken"},
		{"an address in a URL is changed", "@h:1", "@evil:1", "connections[1].connection.connectionURI"},
		{"a connection is another", `"name":"b"`, `"name":"c"`, "connections[1].connection.connectionURI"},
	} {
		sent := strings.Replace(shown, c.from, c.to, 1)
		got, bad := unmasked(json.RawMessage(sent), json.RawMessage(ofAnother))
		var places []string
		for _, f := range bad {
			places = append(places, f.Path)
		}
		if c.name == "something harmless is changed" || c.bad != "" || c.from == "" || len(bad) > 0 {
			if strings.Join(places, " ") != c.bad {
				t.Errorf("%s: refused at %q, want %q", c.name, places, c.bad)
			}
		}
		if c.bad == "" && (holdsMask(got) || !strings.Contains(string(got), "s3cret") || !strings.Contains(string(got), "mongodb://u:p@ss@h")) {
			t.Errorf("%s: got %s", c.name, got)
		}
		if c.bad != "" && strings.Contains(string(got), "s3cret") {
			t.Errorf("%s: the secret is in %s", c.name, got)
		}
	}
	both := `{"connections":[{"connection":{"password":"********"}}]}`
	if got, bad := unmasked(json.RawMessage(both), json.RawMessage(both)); len(bad) > 0 || string(got) != both {
		t.Errorf("of a broker that masks: %s, %v", got, bad)
	}
	if _, bad := unmasked(json.RawMessage(`{"password":"********","url":"https://evil"}`), json.RawMessage(`{"password":"x","url":"https://h"}`)); len(bad) != 1 {
		t.Errorf("without parts: %v", bad)
	}
}

func FuzzUnmasked(f *testing.F) {
	f.Add(ofAnother, ofAnother)
	f.Add(`{"a":[{"name":"x","password":"********"}]}`, `{"a":[{"name":"x","password":"p"},5]}`)
	f.Add(`{"u":"a://b:********@c"}`, `{"u":"a://b:d@c"}`)
	f.Fuzz(func(t *testing.T, config, stored string) {
		shown := masked(json.RawMessage(stored))
		if again := masked(shown); !json.Valid([]byte(stored)) || string(again) != string(shown) {
			if json.Valid([]byte(stored)) {
				t.Fatalf("%s masked again is %s", shown, again)
			}
			return
		}
		unmasked(json.RawMessage(config), json.RawMessage(stored))
		if full, bad := unmasked(shown, json.RawMessage(stored)); len(bad) > 0 {
			t.Fatalf("%s as it is shown is refused: %v (%s)", stored, bad, full)
		}
	})
}
