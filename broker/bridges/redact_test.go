package bridges

import (
	"strings"
	"testing"
)

// secretKind is a kind whose connections have secrets.
type secretKind struct{}

func (secretKind) ID() string { return "spoken-bridge" }

func (secretKind) Schema() Schema {
	return Schema{Connection: []byte(`{"type":"object","properties":{"credentials":{"$ref":"#/$defs/credentials"},
		"token":{"type":"string","writeOnly":true},"tokens":{"type":"array","items":{"type":"string","writeOnly":true}}}}`)}
}

func (secretKind) Compile(*Connection) (Connector, Problems) { return nil, nil }

// TestRedact redacts secrets in texts of targets, in all encodings.
func TestRedact(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("eyJhbGciOi", 40)
	v, _ := readTree([]byte(`{"name":"c","connection":{"credentials":{"username":"u","password":"p/w+\"<&é"},"token":"` + long + `","tokens":["abcdef","abcdefghijkl","abc"]}}`))
	secrets := newKind(secretKind{}).schema().secretsOf(v)
	for text, want := range map[string]string{
		"plain p/w+\"<&é here":                   "plain ******** here",
		`quoted "p/w+\"<&é"`:                     `quoted "********"`,
		`escaped p\/w`:                           `escaped p\/w`,
		"in a query p%2Fw%2B%22%3C%26%C3%A9 end": "in a query ******** end",
		"Basic dTpwL3crIjwmw6k= end":             "Basic ******** end",
		"base64 cC93KyI8JsOp":                    "base64 ********",
		"<b>p/w+&#34;&lt;&amp;é</b>":             "<b>********</b>",
		"one in the other abcdefghijkl, abcdef":  "one in the other ********, ********",
		"cut off " + long[:100]:                  "cut off ********",
		"cut off " + long[:100] + "...":          "cut off ********...",
		"cut off " + long[:100] + "... (try it)": "cut off ********... (try it)",
		"cut off " + long[:100] + "…":            "cut off ********…",
		"cut off abcd":                           "cut off ********",
		"short abc stays, as does eyJ":           "short abc stays, as does eyJ",
		"the server refuses connections ...":     "the server refuses connections ...",
		"":                                       "",
	} {
		if got := redact(text, secrets); got != want {
			t.Errorf("%q\nbecame %q,\nwant %q", text, got, want)
		}
	}
}
