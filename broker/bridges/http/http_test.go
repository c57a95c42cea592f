package http_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
)

func TestARequestForEachMessage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connected(t, s.URL+"/api/", `"token":"token-1","headers":{"x-plant":"north"},"secretHeaders":{"X-Api-Key":"key-1"}`, "",
		`"method":"PUT","target":"/machines/${topic[1]}?at=${timestamp}","body":"{\"v\":${jsonPayload.v},\"t\":\"${topic}\"}","headers":{"X-Client":"${client_id}","X-None":"${contentType}"}`)
	delivered(t, c, []*bridges.Entry{entry(1, "plant/hall 3", `{"v":1.5}`), entry(2, "plant/é/x", `{"v":"\""}`)})
	var got []string
	for _, r := range s.requests() {
		got = append(got, r.method+" "+r.uri+" "+r.body)
		for name, want := range map[string]string{"Authorization": "Bearer token-1", "X-Plant": "north", "X-Api-Key": "key-1", "Content-Type": "application/json",
			"X-Client": "sensor", "User-Agent": "signalbox"} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if _, ok := r.header["X-None"]; ok {
			t.Error("got a header without a value")
		}
	}
	want := []string{
		`PUT /api/machines/hall%203?at=2023-11-14T22%3A13%3A20.123Z {"v":1.5,"t":"plant/hall 3"}`,
		`PUT /api/machines/%C3%A9?at=2023-11-14T22%3A13%3A20.123Z {"v":"\"","t":"plant/é/x"}`,
	}
	if !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	first, second := s.requests()[0].header, s.requests()[1].header
	if got := first.Get("X-Signalbox-Message-Id") + second.Get("X-Signalbox-Message-Id"); got != "store-1store-2" {
		t.Errorf("got identities %s", got)
	}
	if got := first.Get("X-Signalbox-Topic") + " " + second.Get("X-Signalbox-Topic"); got != "plant%2Fhall%203 plant%2F%C3%A9%2Fx" {
		t.Errorf("got topics %s", got)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mapping, payload, method, contentType, body string }{
		"a record":               {"", "21", "POST", "application/json", `{"topic":"a/b","payload":"21","qos":1,"retain":false,"timestamp":"2023-11-14T22:13:20.123Z","client_id":"sensor"}`},
		"the payload as it is":   {`"body":"${payload}","contentType":"application/octet-stream"`, "\xff\x00", "POST", "application/octet-stream", "\xff\x00"},
		"a payload that is JSON": {`"body":"${payload|raw}","contentType":"application/problem+json; charset=utf-8"`, `{"a":1}`, "POST", "application/problem+json; charset=utf-8", `{"a":1}`},
		"no payload":             {`"body":"${payload}","contentType":"text/plain"`, "", "POST", "text/plain", ""},
		"GET has none":           {`"method":"GET"`, "21", "GET", "", ""},
		"DELETE has none":        {`"method":"DELETE"`, "21", "DELETE", "", ""},
		"DELETE with a body":     {`"method":"DELETE","body":"[${payload}]"`, "21", "DELETE", "application/json", `["21"]`},
		"PATCH":                  {`"method":"PATCH","body":"constant","contentType":"text/plain"`, "21", "PATCH", "text/plain", "constant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			delivered(t, connected(t, s.URL, "", "", c.mapping), entries(c.payload))
			got := s.requests()[0]
			if got.method != c.method || got.uri != "/" || got.body != c.body || got.header.Get("Content-Type") != c.contentType {
				t.Errorf("got %s %s %q %s, want %s / %q %s", got.method, got.uri, got.body, got.header.Get("Content-Type"), c.method, c.body, c.contentType)
			}
		})
	}
}

func TestMessagesThatMakeNoRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connected(t, s.URL, "", "", `"target":"/x/${jsonPayload.p}/y${jsonPayload.raw|raw}","headers":{"X-H":"${jsonPayload.h}"},"body":"${jsonPayload.b}"`)
	payloads := []string{`{"p":"a"}`, `no JSON`, `{"p":".."}`, `{"p":"."}`, `{"p":"../../z"}`, `{"p":"..\\z"}`, `{"p":"..;x"}`, `{"raw":" "}`, `{"raw":"/../z"}`, `{"raw":"/%2e%2E/"}`,
		`{"raw":"#"}`, `{"raw":"%"}`, `{"raw":"\r\nX: y"}`, `{"raw":"é"}`, `{"h":"a\nb"}`, `{"h":"\u0000"}`, `{"raw":"` + strings.Repeat("a", 20_000) + `"}`, `{"p":"..."}`, `{"raw":"?a=%2F"}`}
	good := []int{0, len(payloads) - 2, len(payloads) - 1}
	results, err := deliver(t, c, entries(payloads...))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := slices.Contains(good, i); (r.State == bridges.Delivered) != want || !want && (r.State != bridges.Rejected || r.Reason == "") {
			t.Errorf("%.40s: got %v, want it delivered: %t", payloads[i], r, want)
		}
	}
	if got := len(s.requests()); got != len(good) {
		t.Errorf("got %d requests, want %d", got, len(good))
	}
}

func TestEntriesOfADeletedMapping(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	e := entry(1, "a", "1")
	e.Mapping = "gone"
	results, err := deliver(t, connected(t, s.URL, "", "", ""), []*bridges.Entry{e})
	if err != nil || results[0].State != bridges.Rejected || !strings.Contains(results[0].Reason, "gone") {
		t.Errorf("got %v, %v, want it rejected", results, err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	delivered(t, connected(t, s.URL, `"credentials":{"username":"ann","password":"pass: word"}`, "", ""), entries("1"))
	r := nethttp.Request{Header: s.requests()[0].header}
	if user, password, ok := r.BasicAuth(); !ok || user != "ann" || password != "pass: word" {
		t.Errorf("got %s and %s, want ann and her password", user, password)
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	for algorithm, h := range map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New} {
		s := serve(t, nil)
		header := "X-Signalbox-Signature"
		spec := `"hmac":{"secret":"whsec","algorithm":"` + algorithm + `"`
		if algorithm == "sha512" {
			header, spec = "X-Mine", spec+`,"header":"x-mine"`
		}
		delivered(t, connected(t, s.URL, spec+"}", "", ""), entries("1"))
		r := s.requests()[0]
		stamp, signature, ok := strings.Cut(strings.TrimPrefix(r.header.Get(header), "t="), ","+algorithm+"=")
		mac := hmac.New(h, []byte("whsec"))
		mac.Write([]byte(stamp + "." + r.body))
		if want := hex.EncodeToString(mac.Sum(nil)); !ok || signature != want {
			t.Errorf("%s: got %q, want the signature %s", algorithm, r.header.Get(header), want)
		}
		var seconds int64
		if err := json.Unmarshal([]byte(stamp), &seconds); err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
			t.Errorf("%s: got time %s, %v, want now", algorithm, stamp, err)
		}
	}
}

// TestStandardSignature verifies requests as a receiver of Standard Webhooks does. The id is that
// of the message, and the same when it is sent again.
func TestStandardSignature(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	spec := `"hmac":{"format":"standard-webhooks","secret":"whsec_` + base64.StdEncoding.EncodeToString(key) + `"}`
	for _, batch := range []string{"", `"batch":true`} {
		s := serve(t, nil)
		c := connected(t, s.URL, spec, "", batch)
		delivered(t, c, entries("1", "2"))
		delivered(t, c, entries("1", "2"))
		var ids []string
		for _, r := range s.requests() {
			id, stamp := r.header.Get("webhook-id"), r.header.Get("webhook-timestamp")
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", id, stamp, r.body)
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.header.Get("webhook-signature") != want {
				t.Errorf("got the signature %q, want %q", r.header.Get("webhook-signature"), want)
			}
			if seconds, err := strconv.ParseInt(stamp, 10, 64); err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
				t.Errorf("got the time %s", stamp)
			}
			ids = append(ids, id)
		}
		half := len(ids) / 2
		if !slices.Equal(ids[:half], ids[half:]) || len(slices.Compact(ids[:half])) != half || strings.Contains(ids[0], ".") || ids[0] == "" {
			t.Errorf("%s: got the ids %q", batch, ids)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connected(t, s.URL, "", "", `"batch":true,"target":"/bulk","body":"{\"v\":${jsonPayload.v}}"`)
	results, err := deliver(t, c, entries(`{"v":1}`, `no JSON`, `{"v":2}`, `{"v":[3]}`))
	if err != nil {
		t.Fatal(err)
	}
	var states []bridges.State
	for _, r := range results {
		states = append(states, r.State)
	}
	if want := []bridges.State{bridges.Delivered, bridges.Rejected, bridges.Delivered, bridges.Delivered}; !cmp.Equal(states, want) {
		t.Errorf("got %v, want %v", results, want)
	}
	if got, want := s.bodies(), []string{`[{"v":1},{"v":2},{"v":[3]}]`}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := s.requests()[0].header; got.Get("X-Signalbox-Message-Id") != "" || got.Get("X-Signalbox-Topic") != "" {
		t.Errorf("got %v, want no identity of one message", got)
	}
}

func TestBatchOfRecords(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	record, problems := mapping.Compile(mapping.Spec{Mapping: []mapping.FieldSpec{{Source: "message_id", Target: "id"}, {Source: "payload", Target: "n", Type: "number"}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c, ps := compile(`"url":"`+s.URL+`"`, "", `{"name":"m","batch":true}`, map[string]*mapping.Mapping{"m": record})
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	delivered(t, c, entries("1", "2.5"))
	if got, want := s.bodies(), []string{`[{"id":"store-1","n":1},{"id":"store-2","n":2.5}]`}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBatchWithBadMessages(t *testing.T) {
	t.Parallel()
	for _, code := range []int{400, 413, 422} {
		s := serve(t, func(w nethttp.ResponseWriter, r received) {
			if strings.Contains(r.body, "bad") {
				w.WriteHeader(code)
			}
		})
		c := connected(t, s.URL, "", "", `"batch":true,"body":"${payload}"`)
		payloads := strings.Split("0 1 2 bad 4 5 6 7 8 9 10 bad bad 13", " ")
		results, err := deliver(t, c, entries(payloads...))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if want := payloads[i] == "bad"; (r.State == bridges.Rejected) != want || !want && r.State != bridges.Delivered {
				t.Errorf("%d: entry %d: got %v, want it rejected: %t", code, i, r, want)
			}
		}
		if got := len(s.requests()); got > 20 {
			t.Errorf("%d: got %d requests, want at most 20", code, got)
		}
		if got, want := strings.Join(taken(s, "bad"), ""), `["0","1","2"]["4","5","6"]["7","8","9"]["10"]["13"]`; !equalOrder(got, want) {
			t.Errorf("%d: got %s, want the order of %s", code, got, want)
		}
	}
}

// taken returns the bodies that do not contain a word.
func taken(s *server, without string) (all []string) {
	for _, b := range s.bodies() {
		if !strings.Contains(b, without) {
			all = append(all, b)
		}
	}
	return all
}

// equalOrder reports whether two texts have the same numbers in the same order.
func equalOrder(a, b string) bool {
	numbers := func(s string) []string {
		return strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	}
	return slices.Equal(numbers(a), numbers(b))
}
