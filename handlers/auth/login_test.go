package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"signalbox/db"
	"signalbox/handlers/auth"
)

func TestLoginOpensASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.Config{SessionTTL: time.Hour})
	s, err := w.Login(t.Context(), " OWNER@example.org", password, auth.Origin{Caller: home})
	wantErr(t, err, nil)
	if want := w.clock.now().Add(time.Hour); !s.ExpiresAt.Equal(want) || s.User.ID != "owner" {
		t.Errorf("got %s until %v, want owner until %v", s.User.ID, s.ExpiresAt, want)
	}
	p := w.principal(t, s.Token)
	want := auth.Principal{Kind: auth.KindUser, ID: "owner", Name: "owner", FirstName: "owner", Email: "owner@example.org", Session: p.Session}
	if *p != want {
		t.Errorf("got %+v, want %+v", *p, want)
	}
	if strings.Contains(p.Session, s.Token) || len(p.Session) != 64 {
		t.Errorf("got session %q, want the digest of the token", p.Session)
	}
	if other := w.login(t, "owner"); other.Token == s.Token {
		t.Error("two sessions have the same token")
	}
}

func TestLoginIsRefusedInOneWay(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, email, password string }{
		{"wrong password", "owner@example.org", "wrong"},
		{"empty password", "owner@example.org", ""},
		{"unknown user", "nobody@example.org", password},
		{"no e-mail address", "", password},
		{"no password stored", "bare@example.org", ""},
		{"other sign-on", "sso@example.org", password},
		{"unverified", "unverified@example.org", password},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, auth.DefaultConfig())
			w.addUser(t, db.User{ID: "bare", Verified: true})
			w.addUser(t, db.User{ID: "sso", Verified: true, PasswordHash: hashed(), SSOType: "sso"})
			w.addUser(t, db.User{ID: "unverified", PasswordHash: hashed()})
			s, err := w.Login(t.Context(), tt.email, tt.password, auth.Origin{Caller: home})
			if err != auth.ErrUnauthenticated || s.Token != "" { //nolint:errorlint // the error must not be wrapped
				t.Errorf("got %v, %q, want the bare %v", err, s.Token, auth.ErrUnauthenticated)
			}
		})
	}
}

// fail logs in with a wrong password and returns the delay of the next attempt,
// negative if this attempt itself was refused unchecked.
func (w world) fail(t *testing.T, email, address string) (refused time.Duration) {
	t.Helper()
	_, err := w.Login(t.Context(), email, "wrong", auth.Origin{Caller: address})
	if many, ok := errors.AsType[*auth.TooManyAttempts](err); ok {
		return many.RetryAfter
	}
	wantErr(t, err, auth.ErrUnauthenticated)
	return 0
}

func TestFailuresDelayThePair(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	w.login(t, "owner") // from home, where only its own failures delay it now
	for range 5 {
		if wait := w.fail(t, "owner@example.org", home); wait != 0 {
			t.Fatalf("refused for %v within the first five", wait)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900} {
		want *= time.Second
		if got := w.fail(t, "Owner@Example.org", home); got != want {
			t.Fatalf("got a delay of %v, want %v", got, want)
		}
		w.clock.forward(want - time.Millisecond)
		if got := w.fail(t, "owner@example.org", home); got != time.Millisecond {
			t.Fatalf("got %v left, want 1ms", got)
		}
		w.clock.forward(time.Millisecond)
		if got := w.fail(t, "owner@example.org", home); got != 0 {
			t.Fatalf("still refused for %v after the delay", got)
		}
	}
	if got := w.fail(t, "guest@example.org", home); got != 0 {
		t.Errorf("another account was delayed by %v", got)
	}
}

// Failures for an account from many addresses must not lock its user out.
func TestFailuresOfOthersDoNotLockOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	const office, other = "192.0.2.50", "192.0.2.51"
	_, err := w.Login(t.Context(), "owner@example.org", password, auth.Origin{Caller: office})
	must(t, err)
	for i := range 300 {
		w.fail(t, "owner@example.org", fmt.Sprintf("198.51.%d.%d", i/200, i%200))
	}
	for range 30 { // also from where the account is used
		w.fail(t, "guest@example.org", office)
	}
	for name, address := range map[string]string{"where it was before": office, "a clean address": other,
		"this machine": "127.0.0.1", "this machine, by IPv6": "::1"} {
		if _, err := w.Login(t.Context(), "owner@example.org", password, auth.Origin{Caller: address}); err != nil {
			t.Errorf("the right password from %s: %v", name, err)
		}
	}
	if _, err := w.Login(t.Context(), "root@example.org", password, auth.Origin{Caller: office}); err == nil {
		t.Error("an account that never logged in from an address with many failures is let in")
	}
}

func TestThisMachineIsNotDelayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	for _, address := range []string{"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"} {
		for range 25 {
			if got := w.fail(t, "owner@example.org", address); got != 0 {
				t.Fatalf("%s: delayed by %v", address, got)
			}
		}
	}
	for range 5 {
		w.fail(t, "owner@example.org", "a proxy at 127.0.0.1")
	}
	if w.fail(t, "owner@example.org", "a proxy at 127.0.0.1") == 0 {
		t.Error("what a proxy passes on counts as this machine")
	}
}

func TestFailuresDelayTheAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, first, second string
		shared              bool
	}{
		{"the same", "192.0.2.1", "192.0.2.1", true},
		{"another", "192.0.2.1", "192.0.2.2", false},
		{"mapped into IPv6", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"the same /64", "2001:db8:1:2::1", "2001:db8:1:2:ffff:1:2:3", true},
		{"another /64", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"no address", "somewhere", "somewhere", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, auth.DefaultConfig())
			for i := range 5 { // two accounts, so that neither is delayed itself
				if wait := w.fail(t, []string{"guest", "root"}[i%2]+"@example.org", tt.first); wait != 0 {
					t.Fatalf("refused for %v within the first five", wait)
				}
			}
			if got := w.fail(t, "owner@example.org", tt.second) != 0; got != tt.shared {
				t.Errorf("got refused %t, want %t", got, tt.shared)
			}
		})
	}
}

func TestSuccessResetsThePairOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	for range 4 {
		w.fail(t, "owner@example.org", home)
	}
	w.login(t, "owner")
	for range 5 {
		if got := w.fail(t, "owner@example.org", home); got != 0 {
			t.Fatalf("the pair is still delayed by %v", got)
		}
	}
	w.fail(t, "nobody@example.org", home) // the fifth of this address
	if got := w.fail(t, "guest@example.org", home); got != time.Second {
		t.Errorf("got a delay of %v for the address, want 1s", got)
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	for range 5 {
		w.fail(t, "owner@example.org", home)
	}
	w.clock.forward(time.Hour + time.Second)
	for i := range 5 {
		if got := w.fail(t, "owner@example.org", home); got != 0 {
			t.Fatalf("attempt %d after an hour: refused for %v", i, got)
		}
	}
}

// Attempts made at once are counted before any of them is known to fail.
func TestAttemptsAtOnceDoNotSlipThrough(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	const callers = 20
	refused := make(chan bool, callers)
	for range callers {
		go func() {
			_, err := w.Login(t.Context(), "owner@example.org", "wrong", auth.Origin{Caller: home})
			_, ok := errors.AsType[*auth.TooManyAttempts](err)
			refused <- ok
		}()
	}
	seen := 0
	for range callers {
		if !<-refused {
			seen++
		}
	}
	if seen != 5 {
		t.Errorf("%d attempts were looked at, want 5", seen)
	}
}

func TestInterruptedLoginIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		_, err := w.Login(ended, "owner@example.org", password, auth.Origin{Caller: home})
		wantErr(t, err, context.Canceled)
	}
	w.login(t, "owner")
}

func TestLogoutEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	one, two := w.login(t, "owner"), w.login(t, "owner")
	wantErr(t, w.Logout(t.Context(), w.principal(t, one.Token)), nil)
	_, err := w.Authenticate(t.Context(), one.Token)
	wantErr(t, err, auth.ErrUnauthenticated)
	w.principal(t, two.Token)
	wantErr(t, w.Logout(t.Context(), nil), auth.ErrUsersOnly)
	wantErr(t, w.Logout(t.Context(), &auth.Principal{Kind: auth.KindToken}), auth.ErrUsersOnly)
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	here, elsewhere, other := w.login(t, "owner"), w.login(t, "owner"), w.login(t, "guest")
	p := w.principal(t, here.Token)
	wantErr(t, w.ChangePassword(t.Context(), p, "wrong", "new password"), auth.ErrWrongPassword)
	w.principal(t, elsewhere.Token)

	wantErr(t, w.ChangePassword(t.Context(), p, password, "new password"), nil)
	w.principal(t, here.Token)
	w.principal(t, other.Token)
	_, err := w.Authenticate(t.Context(), elsewhere.Token)
	wantErr(t, err, auth.ErrUnauthenticated)
	_, err = w.Login(t.Context(), "owner@example.org", password, auth.Origin{Caller: home})
	wantErr(t, err, auth.ErrUnauthenticated)
	_, err = w.Login(t.Context(), "owner@example.org", "new password", auth.Origin{Caller: home})
	wantErr(t, err, nil)
	wantErr(t, w.ChangePassword(t.Context(), nil, password, "x"), auth.ErrUsersOnly)
	wantErr(t, w.ChangePassword(t.Context(), &auth.Principal{Kind: auth.KindToken}, password, "x"), auth.ErrUsersOnly)
}

func TestGuessingTheCurrentPasswordIsDelayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, auth.DefaultConfig())
	p := w.principal(t, w.login(t, "owner").Token)
	for range 5 {
		wantErr(t, w.ChangePassword(t.Context(), p, "wrong", "new"), auth.ErrWrongPassword)
	}
	err := w.ChangePassword(t.Context(), p, password, "new")
	if many, ok := errors.AsType[*auth.TooManyAttempts](err); !ok || many.RetryAfter != time.Second {
		t.Fatalf("got %v, want a delay of 1s", err)
	}
	w.login(t, "owner") // guesses here do not prevent log-ins of the user
	w.clock.forward(time.Second)
	wantErr(t, w.ChangePassword(t.Context(), p, password, "new"), nil)
}
