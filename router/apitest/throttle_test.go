package apitest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// logInFrom logs in through a proxy on this machine that forwards the caller's address,
// or without one if it is empty, and returns the status.
func logInFrom(t *testing.T, api *apitest.API, from, password string) int {
	t.Helper()
	header := http.Header{}
	if from != "" {
		header.Set("X-Forwarded-For", from)
	}
	status, _ := requestLogin(t, api, header, apitest.RootEmail, password)
	return status
}

// requestLogin sends the request of a log-in with headers.
func requestLogin(t *testing.T, api *apitest.API, header http.Header, email, password string) (status int, answer []byte) {
	t.Helper()
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	r, err := http.NewRequestWithContext(t.Context(), "POST", api.URL+"/api/auth/login", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}

// guessUntilRefused guesses until a guess is refused unchecked. The delay doubles each
// time, so that this does not depend on how long a guess takes.
func guessUntilRefused(t *testing.T, api *apitest.API, from string) {
	t.Helper()
	for range 30 {
		if logInFrom(t, api, from, "wrong") == 429 {
			return
		}
	}
	t.Errorf("30 guesses from %s were all looked at", from)
}

// behindProxy makes the service trust a reverse proxy on this machine.
func behindProxy(c *appliance.Config) { c.HTTP.TrustedProxies = []string{"127.0.0.1", "::1"} }

// Attackers guess the administrator's password from many addresses, one of them the
// administrator's own.
func TestGuessesLockNoAdministratorOut(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, behindProxy)
	const office, clean = "192.0.2.10", "192.0.2.11"
	if got := logInFrom(t, api, office, apitest.RootPassword); got != 200 {
		t.Fatalf("the right password: got %d", got)
	}
	for i := range 21 {
		if got := logInFrom(t, api, fmt.Sprint("198.51.100.", i), "wrong"); got != 401 {
			t.Fatalf("guess %d from another address: got %d, want 401", i, got)
		}
	}
	guessUntilRefused(t, api, "203.0.113.1")
	guessUntilRefused(t, api, "127.0.0.1") // an address that an attacker may claim
	for name, from := range map[string]string{"a clean address": clean, "where it was before": office, "this machine": ""} {
		if got := logInFrom(t, api, from, apitest.RootPassword); got != 200 {
			t.Errorf("the right password from %s: got %d, want 200", name, got)
		}
	}
	api.Root.Get("/api/auth/me").Want(200)
}

// TestProxyIsNotThisMachine has an untrusted reverse proxy on this machine forward the
// requests of others.
func TestProxyIsNotThisMachine(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	guessUntilRefused(t, api, "198.51.100.1")
	if got := logInFrom(t, api, "", apitest.RootPassword); got != 200 {
		t.Errorf("the right password on the machine itself: got %d, want 200", got)
	}
}
