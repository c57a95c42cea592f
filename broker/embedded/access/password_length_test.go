package access

import (
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker"
)

// TestMinPasswordLength sets passwords in both ways; one that is too short changes nothing,
// and imported ones are exempt.
func TestMinPasswordLength(t *testing.T) {
	t.Parallel()
	c, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "broker.db"), PasswordIterations: 1, MinPasswordLength: 8})
	must(t, err)
	t.Cleanup(func() { shut(t, c) })
	short, enough := broker.Secret("sébènth"), broker.Secret("ächtzehn") // characters count, not bytes
	refused := c.CreateClient(t.Context(), broker.ClientSpec{Username: "u", Password: &short})
	wantKind(t, refused, broker.Invalid)
	if e, ok := refused.(*broker.Error); !ok || len(e.Fields) != 1 || e.Fields[0].Path != "password" { //nolint:errorlint // as it is
		t.Errorf("got %#v, want the password named", refused)
	}
	if _, err := c.GetClient(t.Context(), "u"); broker.KindOf(err) != broker.NotFound {
		t.Errorf("a client was created: %v", err)
	}
	must(t, c.CreateClient(t.Context(), broker.ClientSpec{Username: "u", Password: &enough}),
		c.CreateClient(t.Context(), broker.ClientSpec{Username: "without"}))
	before := export(t, c)
	for _, request := range []string{
		`{"command":"createClient","username":"v","password":"1234567"}`,
		`{"command":"modifyClient","username":"u","password":"1234567"}`,
		`{"command":"setClientPassword","username":"u","password":"1234567"}`,
	} {
		if got := command(t, c, request); !strings.Contains(got, "at least 8 characters") || strings.Contains(got, "1234567") {
			t.Errorf("%s: got %s", request, got)
		}
	}
	if got := export(t, c); got != before {
		t.Errorf("something was changed:\n%s", got)
	}
	if got := command(t, c, `{"command":"setClientPassword","username":"u","password":"12345678"}`); strings.Contains(got, "error") {
		t.Errorf("a long one: got %s", got)
	}
	other := fresh(t)
	must(t, other.CreateClient(t.Context(), client("imported")))
	if _, err := c.ImportAccess(t.Context(), strings.NewReader(export(t, other)), false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetClient(t.Context(), "imported"); err != nil {
		t.Errorf("an import with a short password: %v", err)
	}
}
