package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

func login(username, password string) Credentials {
	return Credentials{Username: username, HasUsername: true, Password: []byte(password), HasPassword: true, ClientID: "id"}
}

// authenticated logs in a client with the password "secret".
func authenticated(t testing.TB, c *Control, username string) *Account {
	t.Helper()
	a, err := c.Authenticate(t.Context(), login(username, "secret"))
	if err != nil {
		t.Fatalf("log in as %s: %v", username, err)
	}
	t.Cleanup(a.Release)
	return a
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	command(t, c, `{"command":"createClient","username":"u","password":"right"},
		{"command":"createClient","username":"bound","password":"right","clientid":"bound-id"},
		{"command":"createClient","username":"off","password":"right"},{"command":"disableClient","username":"off"},
		{"command":"createClient","username":"nopw"},
		{"command":"createClient","username":"emptypw","password":""},
		{"command":"createClient","username":"zz","password":"zz"}`)
	some := func(s string) *string { return &s }
	for _, tc := range []struct {
		name               string
		username, password *string
		clientID           string
		allowed            bool
	}{
		{"right password", some("u"), some("right"), "x", true},
		{"right password once more", some("u"), some("right"), "", true},
		{"wrong password", some("u"), some("wrong"), "x", false},
		{"no password", some("u"), nil, "x", false},
		{"empty password", some("u"), some(""), "x", false},
		{"unknown user", some("v"), some("right"), "x", false},
		{"unknown user, the next one's password", some("yy"), some("zz"), "x", false},
		{"unknown user after the last, the first one's password", some("zzz"), some("right"), "x", false},
		{"unknown user, no password", some("v"), nil, "x", false},
		{"client without a password in the store", some("nopw"), some("right"), "x", false},
		{"the same, none given", some("nopw"), nil, "x", false},
		{"client with an empty password in the store, empty given", some("emptypw"), some(""), "x", false},
		{"bound client id, right", some("bound"), some("right"), "bound-id", true},
		{"bound client id, wrong", some("bound"), some("right"), "x", false},
		{"disabled", some("off"), some("right"), "x", false},
		{"disabled, wrong password", some("off"), some("wrong"), "x", false},
		{"anonymous", nil, nil, "x", false},
		{"password without username", nil, some("right"), "x", false},
		{"empty username", some(""), some("right"), "x", false},
		{"username in another case", some("U"), some("right"), "x", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cr := Credentials{ClientID: tc.clientID}
			if tc.username != nil {
				cr.Username, cr.HasUsername = *tc.username, true
			}
			if tc.password != nil {
				cr.Password, cr.HasPassword = []byte(*tc.password), true
			}
			a, err := c.Authenticate(t.Context(), cr)
			if a != nil {
				a.Release()
			}
			if want := map[bool]error{true: nil, false: ErrNotAuthorized}[tc.allowed]; !errors.Is(err, want) || (a != nil) != tc.allowed {
				t.Errorf("got account %v and error %v, want %v", a, err, want)
			}
		})
	}
}

// TestLogInFollowsTheRecord expects a change of the record to apply from the next log-in
// on, cached or not.
func TestLogInFollowsTheRecord(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	tries := func(password string, want error) {
		t.Helper()
		a, err := c.Authenticate(t.Context(), login("u", password))
		if a != nil {
			a.Release()
		}
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	tries("secret", nil)
	command(t, c, `{"command":"setClientPassword","username":"u","password":"new"}`)
	tries("secret", ErrNotAuthorized)
	tries("new", nil)
	command(t, c, `{"command":"disableClient","username":"u"}`)
	tries("new", ErrNotAuthorized)
	command(t, c, `{"command":"enableClient","username":"u"}`)
	tries("new", nil)
	command(t, c, `{"command":"setClientId","username":"u","clientid":"other"}`)
	tries("new", ErrNotAuthorized)
	command(t, c, `{"command":"deleteClient","username":"u"},{"command":"createClient","username":"u"}`)
	tries("new", ErrNotAuthorized)
}

// occupyHashing takes all places for hashing until the returned function is called.
func occupyHashing(t *testing.T, c *Control) (free func()) {
	t.Helper()
	for range cap(c.hashing) {
		must(t, c.hashing.acquire(t.Context()))
	}
	free = sync.OnceFunc(func() {
		for range cap(c.hashing) {
			c.hashing.release()
		}
	})
	t.Cleanup(free)
	return free
}

// TestRecheck refuses a client before its password is verified, or after that, though the password is right. In between
// others that were verified at the same time may have used up what an address may try.
func TestRecheck(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	command(t, c, `{"command":"createClient","username":"u","password":"secret"}`)
	errBanned := errors.New("banned")
	for refused, want := range []error{errBanned, errBanned, nil} {
		calls := 0
		account, err := c.Authenticate(t.Context(), Credentials{Username: "u", HasUsername: true, Password: []byte("secret"), HasPassword: true, Recheck: func() error {
			if calls++; calls == refused+1 {
				return errBanned
			}
			return nil
		}})
		if err == nil {
			account.Release()
		}
		if !errors.Is(err, want) || calls != min(refused+1, 2) {
			t.Errorf("refused at check %d: got %v after %d checks, want %v", refused+1, err, calls, want)
		}
	}
}

// TestCachedLogInCostsNoHashing logs in while no password can be hashed. All others wait,
// whether or not their credentials are right.
func TestCachedLogInCostsNoHashing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		hashWait(t, c, login("nobody", "secret"), ErrNotAuthorized) // there are no hashes yet
		command(t, c, `{"command":"createClient","username":"u","password":"secret"},{"command":"createClient","username":"nopw"},
			{"command":"createClient","username":"off","password":"secret"},{"command":"disableClient","username":"off"},
			{"command":"createClient","username":"bound","password":"secret","clientid":"other"}`)
		for _, username := range []string{"nobody", "zzz", "nopw", "off", "bound"} {
			hashWait(t, c, login(username, "secret"), ErrNotAuthorized)
		}
		hashWait(t, c, login("u", "wrong"), ErrNotAuthorized)
		hashWait(t, c, login("u", "secret"), nil)
		free := occupyHashing(t, c)
		authenticated(t, c, "u")
		free()
		hashWait(t, c, login("u", "wrong"), ErrNotAuthorized)
		if n := len(c.credentials.known); n != 1 {
			t.Errorf("%d log-ins are remembered, want the one that succeeded", n)
		}
	})
}

// hashWait expects a log-in to wait while no password can be hashed, and then to end with
// want.
func hashWait(t *testing.T, c *Control, cr Credentials, want error) {
	t.Helper()
	free := occupyHashing(t, c)
	done := make(chan error, 1)
	go func() {
		a, err := c.Authenticate(t.Context(), cr)
		if a != nil {
			a.Release()
		}
		done <- err
	}()
	synctest.Wait()
	select {
	case err := <-done:
		t.Errorf("%s was decided without hashing: %v", cr.Username, err)
		free()
		return
	default:
	}
	free()
	if err := <-done; !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", cr.Username, err, want)
	}
}

// TestRememberedLogInReadsNoFile makes hashes unreadable. A log-in that succeeded before needs none until
// anything changes.
func TestRememberedLogInReadsNoFile(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	authenticated(t, c, "u")
	must(t, c.store.passwd.Close())
	authenticated(t, c, "u")
	if _, err := c.Authenticate(t.Context(), login("u", "wrong")); err == nil || errors.Is(err, ErrNotAuthorized) {
		t.Errorf("a wrong password: got %v, want that it could not be decided", err)
	}
	command(t, c, `{"command":"createRole","rolename":"r"}`)
	if _, err := c.Authenticate(t.Context(), login("u", "secret")); err == nil || errors.Is(err, ErrNotAuthorized) {
		t.Errorf("after a change: got %v, want that it could not be decided", err)
	}
}

// TestHashingStopsWithItsContext expects no effect then.
func TestHashingStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		must(t, c.CreateClient(t.Context(), client("u")))
		occupyHashing(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Authenticate(ctx, login("u", "secret")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotAuthorized) {
			t.Errorf("got %v, want that it could not be decided", err)
		}
		wantKind(t, c.CreateClient(ctx, client("w")), broker.Unavailable)
		if _, ok := c.state.Load().Client("w"); ok {
			t.Error("the client exists")
		}
	})
}

func TestCachedCredentialsAreRemovedWithTheirRecord(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")), c.CreateClient(t.Context(), client("v")))
	authenticated(t, c, "u")
	authenticated(t, c, "v")
	command(t, c, `{"command":"createRole","rolename":"r"}`)
	if n := len(c.credentials.known); n != 2 {
		t.Errorf("%d log-ins are remembered, want 2", n)
	}
	command(t, c, `{"command":"modifyClient","username":"u","textname":"t"},{"command":"deleteClient","username":"v"}`)
	if n := len(c.credentials.known); n != 0 {
		t.Errorf("%d log-ins are remembered after their records changed", n)
	}
}

func TestCredentialCacheIsBounded(t *testing.T) {
	t.Parallel()
	l := newCredentialCache("")
	for i := range maxCachedCredentials + 10 {
		l.add(fmt.Sprint(i), credential{})
	}
	if n := len(l.known); n != maxCachedCredentials {
		t.Errorf("%d are remembered, want %d", n, maxCachedCredentials)
	}
	last := fmt.Sprint(maxCachedCredentials + 9)
	if !l.contains(last, proof{}) {
		t.Error("the newest is not remembered")
	}
}

// TestLogInDuringAChange changes the record while the password is verified.
func TestLogInDuringAChange(t *testing.T) {
	t.Parallel()
	other, err := dynsec.HashPassword([]byte("other"), iterations)
	must(t, err)
	imports := func(document string) func(*testing.T, *Control) {
		return func(t *testing.T, c *Control) {
			t.Helper()
			_, err := c.ImportAccess(t.Context(), strings.NewReader(document), true)
			must(t, err)
		}
	}
	does := func(commands string) func(*testing.T, *Control) {
		return func(t *testing.T, c *Control) { t.Helper(); command(t, c, commands) }
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *Control)
		want   error
	}{
		"disabled meanwhile":               {does(`{"command":"disableClient","username":"u"}`), ErrNotAuthorized},
		"deleted meanwhile":                {does(`{"command":"deleteClient","username":"u"}`), ErrNotAuthorized},
		"given a text meanwhile":           {does(`{"command":"modifyClient","username":"u","textname":"t"}`), nil},
		"another one is disabled":          {does(`{"command":"disableClient","username":"v"}`), nil},
		"given another password meanwhile": {imports(`{"clients":[{"username":"u","encoded_password":"` + other + `"}]}`), ErrNotAuthorized},
		"bound to an id meanwhile":         {does(`{"command":"setClientId","username":"u","clientid":"other"}`), ErrNotAuthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { loginDuring(t, tc.change, tc.want) })
		})
	}
}

func loginDuring(t *testing.T, change func(*testing.T, *Control), want error) {
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")), c.CreateClient(t.Context(), client("v")))
	free := occupyHashing(t, c)
	var wg sync.WaitGroup
	wg.Go(func() {
		a, err := c.Authenticate(t.Context(), login("u", "secret"))
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if a != nil {
			if a.Revoked() {
				t.Error("the account is revoked already")
			}
			a.Release()
		}
	})
	synctest.Wait() // it waits to verify the password
	change(t, c)
	free()
	wg.Wait()
}

// TestUnknownNameCostsWhatItsNeighbourDoes expects that the hash of the next client is
// verified for a name without one.
func TestUnknownNameCostsWhatItsNeighbourDoes(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	command(t, c, `{"command":"createClient","username":"nopw"}`)
	stored := func(username string) string {
		name, encoded, err := c.store.password(t.Context(), username)
		must(t, err)
		if (name == "") != (encoded == "") {
			t.Errorf("%s: name %q goes with hash %q", username, name, encoded)
		}
		return name
	}
	if got := stored("nopw"); got != "" {
		t.Errorf("got the hash of %q where there is none", got)
	}
	command(t, c, `{"command":"createClient","username":"b","password":"x"},{"command":"createClient","username":"m","password":"x"}`)
	for username, want := range map[string]string{"a": "b", "b": "b", "c": "m", "m": "m", "nopw": "b"} {
		if got := stored(username); got != want {
			t.Errorf("%s is verified against the hash of %q, want %q", username, got, want)
		}
	}
}

// TestDisconnectedClientsDoNotWait disconnects clients while no password can be hashed.
// Their log-ins end at once, and without having been verified.
func TestDisconnectedClientsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, errLeft := fresh(t), errors.New("left")
		free := occupyHashing(t, c)
		leave, ended := make(chan struct{}), 0
		cr := login("u", "secret")
		cr.WhileConnected = func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			go func() { <-leave; cancel(errLeft) }()
			return ctx, func() { ended++ }
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Authenticate(t.Context(), cr)
			done <- err
		}()
		synctest.Wait()
		close(leave)
		if err := <-done; !errors.Is(err, errLeft) || ended != 1 {
			t.Errorf("error %v, want that the client left; the watch ended %d times", err, ended)
		}
		free()
	})
}
