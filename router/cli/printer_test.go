package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/router"
)

// printed returns what a response of an operation is printed as.
func printed(t *testing.T, id, format, response string) string {
	t.Helper()
	ops, err := router.Operations()
	must(t, err)
	op := (&tree{ops: ops}).operation(id)
	var b strings.Builder
	p := &printer{w: &b, format: format, operation: id, schema: itemSchema(op.Result)}
	must(t, p.response(strings.NewReader(response)))
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestTimes prints times in milliseconds as dates, names by what identifies an entry, and columns that
// were requested.
func TestTimes(t *testing.T) {
	t.Parallel()
	const sessions = `[{"username":"u","clientid":"c","address":"a","connected":true,"protocolVersion":"v5","lastConnect":1769860800000,"lastDisconnect":null}]`
	const rated = `[{"clientid":"c","listener":{"port":8883,"bind_address":"::"},"rateIn":12.5,"rateOut":0},{"clientid":"d","rateIn":0,"rateOut":0}]`
	const streams = `[{"streamname":"s","sourcetopic":"in","targettopic":"","ttl":0,"rate":12.5},{"streamname":"t","sourcetopic":"x","rate":0}]`
	const tokens = `[{"name":"n","id":"i","role_id":"viewer","issuer":"I","valid_date":1769860800000,"last_used_date":0}]`
	for _, c := range []struct{ id, format, response, want string }{
		{"inspectClients", asTable, sessions, "c u a true v5 - 2026-01-31T12:00:00Z -"},
		{"inspectClients", asTable, rated, "c - - - - 8883 - - 12.5 0 d - - - - - - - 0 0"},
		{"listProjects", asTable, `[{"id":"i","name":"n","description":"d","owner":{"name":"o"},"role":"admin"}]`, "n i d admin"},
		{"listProjects", asTable, `[{"id":"i","name":"n","description":"d","role":"admin","members":3,"brokers":0}]`, "n i d admin 3 0"},
		{"inspectClients", asNames, sessions, "c"},
		{"listStreams", asTable, streams, "s in - - 0 - - - 12.5 t x - - - - - - 0"},
		{"listTokens", asTable, tokens, "n i viewer I 2026-01-31T12:00:00Z -"},
		{"listAudit", asNames, `{"events":[{"seq":7}],"next":0}`, "7"},
	} {
		if got := printed(t, c.id, c.format, c.response); got != c.want {
			t.Errorf("%s as %s: got %q, want %q", c.id, c.format, got, c.want)
		}
	}
}

// TestSet_age accepts an age where records since or until a time are asked for.
func TestSet_age(t *testing.T) {
	t.Parallel()
	since := &input{in: inQuery, field: router.Field{Schema: router.Schema{Kind: router.Text, Format: "date-time"}}}
	must(t, since.Set("12h"))
	at, err := time.Parse(time.RFC3339, since.String())
	must(t, err)
	if age := time.Since(at); age < 12*time.Hour || age > 13*time.Hour {
		t.Errorf("12h is %s ago", age)
	}
	must(t, since.Set("2026-01-31T12:00:00Z"))
	for _, text := range []string{"12x", "yesterday", "2026-01-31"} {
		if err := since.Set(text); err == nil || !strings.Contains(err.Error(), "2026-01-31T12:00:00Z, or an age, as in 90s, 45m or 12h") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if since.String() != "2026-01-31T12:00:00Z" {
		t.Errorf("a refused time has replaced %s", since)
	}
	name := &input{in: inQuery, field: router.Field{Schema: router.Schema{Kind: router.Text}}}
	if must(t, name.Set("12h")); name.String() != "12h" {
		t.Errorf("a name became %s", name)
	}
}

// TestProperties prints the lists of objects in a response as tables below its other members.
func TestProperties(t *testing.T) {
	t.Parallel()
	ops, err := router.Operations()
	must(t, err)
	const response = `{"connected":false,"error":"the certificate is not trusted","capabilities":[],"missing":[],
		"steps":[{"step":"name","state":"good"},{"step":"tls","state":"failed"}],"cause":"untrusted",
		"remedies":[{"remedy":"r","text":"Compare it.","where":"broker-shell","lines":"openssl x509\nls"}],
		"certificates":[{"subject":"CN=a","issuer":"CN=b","names":["a"],"notBefore":0,"notAfter":1769860800000,"fingerprint":"5E","problems":[{"problem":"p","text":"t"}]}]}`
	const want = `connected     false
error         the certificate is not trusted
capabilities  -
missing       -
cause         untrusted

steps:
STEP  STATE
name  good
tls   failed

remedies:
TEXT         LINES
Compare it.  openssl x509\nls

certificates:
SUBJECT  NOT-AFTER             FINGERPRINT
CN=a     2026-01-31T12:00:00Z  5E
`
	op := (&tree{ops: ops}).operation("testBroker")
	var b strings.Builder
	p := &printer{w: &b, format: asTable, header: true, operation: op.ID, schema: itemSchema(op.Result)}
	must(t, p.response(strings.NewReader(response)))
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRules prints what the ACLs of a role decide.
func TestRules(t *testing.T) {
	t.Parallel()
	acls := []any{
		map[string]any{"acltype": "publishClientSend", "topic": "plant/#", "priority": 0, "allow": true},
		map[string]any{"acltype": "subscribePattern", "topic": "plant/#", "allow": false},
	}
	if got := cellOfList(acls); got != "publishClientSend plant/#,deny subscribePattern plant/#" {
		t.Errorf("got %q", got)
	}
}
