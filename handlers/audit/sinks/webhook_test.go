package sinks

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// secretOf returns a secret of Standard Webhooks, and the key that it stands for.
func secretOf(fill byte) (secret string, key []byte) {
	key = bytes.Repeat([]byte{fill}, 32)
	return "whsec_" + base64.StdEncoding.EncodeToString(key), key
}

// signedBy returns how many of the signatures of a request are those of a key, as a receiver of
// Standard Webhooks computes them.
func signedBy(h http.Header, body, key []byte) (n int) {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), h.Get("webhook-timestamp"), body)
	for _, one := range strings.Split(h.Get("webhook-signature"), " ") {
		if one == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			n++
		}
	}
	return n
}

// TestWebhookSignature verifies the signatures of requests by two secrets. What is sent again, as
// it was refused, has the same id and body, and a new time; what was added meanwhile follows.
func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, firstKey := secretOf(1)
	second, secondKey := secretOf(2)
	clock := time.Now()
	var mu sync.Mutex
	var ids, bodies, times []string
	accept := false
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		must(t, err)
		mu.Lock()
		defer mu.Unlock()
		if signedBy(q.Header, body, firstKey) != 1 || signedBy(q.Header, body, secondKey) != 1 || signedBy(q.Header, append(body, ' '), firstKey) != 0 {
			t.Errorf("wrong signature %v", q.Header)
		}
		ids, bodies, times = append(ids, q.Header.Get("webhook-id")), append(bodies, string(body)), append(times, q.Header.Get("webhook-timestamp"))
		if !accept {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer receiver.Close()
	o := options()
	o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); clock = clock.Add(time.Second); return clock }
	r.add("a", "b")
	s, _ := r.start(Config{Webhook: receiver.URL, WebhookSecret: second + " " + first}, o)
	attempts := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	suite.WaitFor(t, "an attempt", func() bool { return attempts() > 0 })
	r.add("c")
	again := attempts() + 2
	suite.WaitFor(t, "further attempts", func() bool { return attempts() >= again })
	mu.Lock()
	accept = true
	mu.Unlock()
	r.waitFor(s, 3)
	mu.Lock()
	defer mu.Unlock()
	last := len(ids) - 1
	if len(slices.Compact(slices.Clone(ids[:last]))) != 1 || len(slices.Compact(slices.Clone(bodies[:last]))) != 1 || ids[last] == ids[0] || len(slices.Compact(slices.Clone(times))) != len(times) {
		t.Errorf("ids %q, times %q", ids, times)
	}
	want(t, "the rows of the last attempt", names(t, []byte(bodies[last])), "c")
	if seconds, err := strconv.ParseInt(times[last], 10, 64); err != nil || seconds < clock.Unix()-60 {
		t.Errorf("the time is %s", times[last])
	}
}

// TestWebhookSecret_is_checked refuses secrets of another form.
func TestWebhookSecret_is_checked(t *testing.T) {
	t.Parallel()
	good, _ := secretOf(1)
	for _, c := range []Config{{Webhook: "http://h", WebhookSecret: "sentinel"}, {WebhookSecret: good}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "audit.sinks.webhook_secret: ") || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("got %v", err)
		}
	}
}

// sampleReceiver builds the receiver that the manual shows.
func sampleReceiver(t *testing.T) (program string) {
	t.Helper()
	page, err := os.ReadFile("../../../router/manual/audit.md")
	must(t, err)
	source := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if source == nil {
		t.Fatal("the manual has no receiver")
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "receiver.go"), source[1], 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "receiver", "receiver.go")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "receiver")
}

// TestSampleReceiver runs the receiver of the manual: it takes what is signed with its secret, and
// refuses the rest.
func TestSampleReceiver(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	right, _ := secretOf(1)
	wrong, _ := secretOf(2)
	cmd := exec.Command(sampleReceiver(t), address)
	cmd.Env = append(os.Environ(), "SECRET="+right)
	p, err := process.Start(cmd, func(string) bool { return true })
	must(t, err)
	defer p.Kill()
	url := "http://" + address + "/"
	for _, secret := range []string{wrong, ""} {
		r := newRig(t)
		s, stop := r.start(Config{Webhook: url, WebhookSecret: secret}, options())
		r.add("a")
		suite.WaitFor(t, "the refusal is shown", func() bool { st := r.status(s); return st.Err != nil && strings.Contains(st.Err.Error(), "401") })
		stop()
	}
	old := options()
	old.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
	r := newRig(t)
	s, stop := r.start(Config{Webhook: url, WebhookSecret: right}, old)
	r.add("a")
	suite.WaitFor(t, "the refusal of what is old is shown", func() bool { st := r.status(s); return st.Err != nil && strings.Contains(st.Err.Error(), "401") })
	stop()
	s, _ = r.start(Config{Webhook: url, WebhookSecret: wrong + " " + right}, options())
	r.waitFor(s, 1)
}
