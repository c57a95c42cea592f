package webhook

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSign makes the signature of the example that the libraries of Standard Webhooks are
// tested with.
func TestSign(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	other := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, maxSecret))
	for secrets, count := range map[string]int{secret: 1, secret + " " + other: 2} {
		s, err := NewSigner(secrets)
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		s.Sign(h.Set, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999), []byte(`{"test": 2432232314}`))
		signatures := strings.Fields(h.Get("webhook-signature"))
		if len(signatures) != count || signatures[0] != want || h.Get("webhook-id") != "msg_p5jXN8AQM9LWM0D4loKWxJek" || h.Get("webhook-timestamp") != "1614265330" {
			t.Errorf("got %v", h)
		}
	}
	h := http.Header{}
	if (Signer{}).Sign(h.Set, "x", time.Now(), nil); len(h) > 0 {
		t.Errorf("without a secret: %v", h)
	}
}

// TestNewSigner refuses what is not a secret of Standard Webhooks, and does not repeat it.
func TestNewSigner(t *testing.T) {
	t.Parallel()
	encoded := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	good := "whsec_" + encoded(32)
	for _, text := range []string{"", " ", encoded(32), "whsec_", "whsec_sentinel!", "whsec_" + encoded(23), "whsec_" + encoded(65), strings.Repeat(good+" ", 5), good + " x"} {
		if _, err := NewSigner(text); err == nil || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := NewSigner(strings.Repeat(good+" ", 4)); err != nil {
		t.Error(err)
	}
}

// TestID is the same for equal parts only.
func TestID(t *testing.T) {
	t.Parallel()
	id := ID("a", "b")
	for _, parts := range [][]string{{"ab"}, {"b", "a"}, {"a", "b", ""}, {}} {
		if other := ID(parts...); other == id || strings.Contains(other, ".") {
			t.Errorf("%q: got %s", parts, other)
		}
	}
	if again := ID("a", "b"); again != id {
		t.Errorf("got %s and %s", id, again)
	}
}
