package auth_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w world, t *testing.T){
		"when its time is over": func(w world, _ *testing.T) { w.clock.forward(24 * time.Hour) },
		"when the user is no longer verified": func(w world, t *testing.T) {
			no := false
			must(t, w.db.UpdateUser(t.Context(), db.UserUpdate{ID: "guest", Verified: &no}))
		},
		"when the user is gone": func(w world, t *testing.T) { must(t, w.db.DeleteUser(t.Context(), "guest")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, auth.DefaultConfig())
			token := w.login(t, "guest").Token
			w.clock.forward(24*time.Hour - time.Second)
			w.principal(t, token)
			end(w, t)
			_, err := w.Authenticate(t.Context(), token)
			wantErr(t, err, auth.ErrUnauthenticated)
		})
	}
}

func TestLoginRemovesExpiredSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	old := w.principal(t, w.login(t, "owner").Token).Session
	began := w.clock.now()
	w.clock.forward(25 * time.Hour)
	w.login(t, "owner")
	_, _, err := w.db.SessionUser(t.Context(), old, began)
	wantErr(t, err, db.ErrNotFound)
}

func TestProjectToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	value := w.issue(t, db.Token{ID: "t", ProjectID: "p", Name: "ci", Role: "viewer", Type: "unrestricted"})
	p := w.principal(t, value)
	if p.Kind != auth.KindToken || p.ID != "t" || p.Name != "ci" || p.Token.ProjectID != "p" || p.Root || p.Session != "" {
		t.Errorf("got %+v, want token t", p)
	}
	_, err := w.db.DeleteToken(t.Context(), "p", "t")
	must(t, err)
	_, err = w.Authenticate(t.Context(), value)
	wantErr(t, err, auth.ErrUnauthenticated)
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	value := w.issue(t, db.Token{ID: "t", ProjectID: "p", Role: "viewer", Type: "unrestricted",
		ValidUntil: w.clock.now().Add(time.Minute)})
	w.clock.forward(time.Minute - time.Millisecond)
	w.principal(t, value)
	w.clock.forward(time.Millisecond)
	_, err := w.Authenticate(t.Context(), value)
	wantErr(t, err, auth.ErrUnauthenticated)
}

func FuzzAuthenticate(f *testing.F) {
	w := newWorld(f, auth.DefaultConfig())
	value, _ := auth.NewToken()
	for _, seed := range []string{"", "sbx_", value, value[4:], value + "=", "sbx_" + value[4:46], strings.Repeat("é", 43), "' OR 1=1 --"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, credential string) {
		p, err := w.Authenticate(t.Context(), credential)
		if p != nil {
			t.Fatalf("got %+v for a credential that nobody has", p)
		}
		wantErr(t, err, auth.ErrUnauthenticated)
	})
}

func TestRoleIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	users := map[string]*auth.Principal{
		"stranger":   nil,
		"token of p": w.principal(t, w.issue(t, db.Token{ID: "t", ProjectID: "p", Role: "editor", Type: "unrestricted"})),
		"forged":     {Kind: auth.KindToken, ID: "owner", Token: &db.Token{ProjectID: "p", Role: "root", OwnerRole: "root"}},
	}
	for _, id := range []string{"owner", "guest", "root"} {
		users[id] = w.principal(t, w.login(t, id).Token)
	}
	tests := []struct {
		who, project string
		want         auth.Role
		err          error
	}{
		{"owner", "p", auth.Admin, nil},
		{"owner", "q", auth.NoRole, nil},
		{"owner", "none", auth.NoRole, db.ErrNotFound},
		{"guest", "p", auth.Editor, nil},
		{"root", "p", auth.Root, nil},
		{"root", "q", auth.Root, nil},
		{"root", "none", auth.NoRole, db.ErrNotFound},
		{"stranger", "p", auth.NoRole, nil},
		{"stranger", "none", auth.NoRole, db.ErrNotFound},
		{"token of p", "p", auth.Editor, nil},
		{"token of p", "q", auth.NoRole, nil},
		{"token of p", "none", auth.NoRole, db.ErrNotFound},
		{"forged", "p", auth.Admin, nil}, // a token has at most the role admin
		{"forged", "q", auth.NoRole, nil},
	}
	for _, tt := range tests {
		got, err := w.RoleIn(t.Context(), users[tt.who], tt.project)
		wantErr(t, err, tt.err)
		if got != tt.want {
			t.Errorf("%s in %s: got %v, want %v", tt.who, tt.project, got, tt.want)
		}
	}
}

func TestRequired(t *testing.T) {
	t.Parallel()
	for readOnly, want := range map[bool]auth.Role{false: auth.Viewer, true: auth.Editor} {
		a := auth.New(nil, auth.Config{ViewerReadOnly: readOnly}, time.Now, nil)
		if got := a.Required(auth.Viewer, true); got != want {
			t.Errorf("viewer_read_only %t, writing: got %v, want %v", readOnly, got, want)
		}
		for _, least := range []auth.Role{auth.NoRole, auth.Public, auth.SignedIn, auth.Viewer, auth.Editor, auth.Admin, auth.Root} {
			if got := a.Required(least, false); got != least {
				t.Errorf("viewer_read_only %t, reading: got %v, want %v", readOnly, got, least)
			}
			if got := a.Required(least, true); least != auth.Viewer && got != least {
				t.Errorf("viewer_read_only %t, writing: got %v, want %v", readOnly, got, least)
			}
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	all := []auth.Role{auth.NoRole, auth.Public, auth.SignedIn, auth.Viewer, auth.Editor, auth.Admin, auth.Root}
	for i, has := range all {
		for j, least := range all {
			want := j == 1 || j > 0 && i >= j
			if got := has.Allows(least); got != want {
				t.Errorf("%v allows %v: got %t, want %t", has, least, got, want)
			}
		}
		parsed, ok := auth.ParseRole(has.String())
		if want := has >= auth.Viewer; ok != want || ok && parsed != has || !ok && parsed != auth.NoRole {
			t.Errorf("parse %q: got %v, %t", has.String(), parsed, ok)
		}
	}
	for _, name := range []string{"", "Viewer", "owner", "viewer "} {
		if r, ok := auth.ParseRole(name); ok || r != auth.NoRole {
			t.Errorf("parse %q: got %v, want nobody", name, r)
		}
	}
	for _, r := range []auth.Role{-1, 7} {
		if got := r.String(); got != "nobody" {
			t.Errorf("role %d: got %q, want nobody", r, got)
		}
	}
}

func TestBrokerAllowed(t *testing.T) {
	t.Parallel()
	token := func(kind string, brokers ...string) *auth.Principal {
		return &auth.Principal{Kind: auth.KindToken, Token: &db.Token{Type: kind, Brokers: brokers}}
	}
	tests := []struct {
		name       string
		p          *auth.Principal
		restricted bool
		allowed    bool
	}{
		{"user", &auth.Principal{Kind: auth.KindUser}, false, true},
		{"unrestricted token", token("unrestricted"), false, true},
		{"restricted to it", token("restricted", "a", "b"), true, true},
		{"restricted to another", token("restricted", "a"), true, false},
		{"restricted to none", token("restricted"), true, false},
		{"unknown type", token(""), true, false},
	}
	for _, tt := range tests {
		if got := tt.p.Restricted(); got != tt.restricted {
			t.Errorf("%s: got restricted %t, want %t", tt.name, got, tt.restricted)
		}
		if got := tt.p.BrokerAllowed("b"); got != tt.allowed {
			t.Errorf("%s: got allowed %t, want %t", tt.name, got, tt.allowed)
		}
	}
}

func TestPrincipalTravelsInTheContext(t *testing.T) {
	t.Parallel()
	if p := auth.From(t.Context()); p != nil {
		t.Errorf("got %v in an empty context", p)
	}
	p := &auth.Principal{ID: "u"}
	if got := auth.From(auth.WithPrincipal(t.Context(), p)); got != p {
		t.Errorf("got %v, want %v", got, p)
	}
}

func TestNewToken(t *testing.T) {
	t.Parallel()
	value, hash := auth.NewToken()
	random, ok := strings.CutPrefix(value, "sbx_")
	raw, err := base64.RawURLEncoding.DecodeString(random)
	if !ok || err != nil || len(raw) != 32 || len(hash) != 64 {
		t.Errorf("got %q with hash %q, want sbx_ and 32 bytes in base64url, hash in hex", value, hash)
	}
	if other, otherHash := auth.NewToken(); other == value || otherHash == hash {
		t.Error("two tokens are the same")
	}
}

func TestNewPassword(t *testing.T) {
	t.Parallel()
	seen := map[rune]bool{}
	for range 200 {
		p := auth.NewPassword()
		if len(p) != 20 || strings.ContainsAny(p, "l1Io0O") {
			t.Fatalf("got %q, want 20 characters that cannot be mistaken", p)
		}
		for _, r := range p {
			seen[r] = true
		}
	}
	if len(seen) != 32 {
		t.Errorf("got %d different characters in 4000, want 32", len(seen))
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	if err := auth.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for _, ttl := range []time.Duration{0, -time.Hour, time.Minute - 1} {
		if err := (auth.Config{SessionTTL: ttl}).Validate(); err == nil || !strings.Contains(err.Error(), "auth.session_ttl") {
			t.Errorf("%v: got %v, want the key named", ttl, err)
		}
	}
}
