package http_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	const url = `"url":"http://localhost"`
	for _, c := range []struct{ connection, mapping, path string }{
		{`"url":"ftp://localhost"`, "", "connection.url"},
		{`"url":"localhost:80"`, "", "connection.url"},
		{`"url":"http://"`, "", "connection.url"},
		{`"url":"http://ann:secret@localhost"`, "", "connection.url"},
		{`"url":"http://localhost/?key=1"`, "", "connection.url"},
		{`"url":"http://localhost/#a"`, "", "connection.url"},
		{`"url":"http://localhost/a/%2E%2e/"`, "", "connection.url"},
		{`"url":"http://localhost:65536"`, "", "connection.url"},
		{`"url":"http://localhost:0"`, "", "connection.url"},
		{`"url":"http://local host"`, "", "connection.url"},
		{`"url":"http://localhost","tls":{"enabled":true}`, "", "connection.url"},
		{url + `,"headers":{"a b":"c"}`, "", `connection.headers["a b"]`},
		{url + `,"headers":{"A":"c\n"}`, "", `connection.headers.A`},
		{url + `,"headers":{"host":"c"}`, "", `connection.headers.host`},
		{url + `,"headers":{"Authorization":"c"}`, "", `connection.headers.Authorization`},
		{url + `,"headers":{"X-Signalbox-Topic":"c"}`, "", `connection.headers.X-Signalbox-Topic`},
		{url + `,"headers":{"A":"c"},"secretHeaders":{"a":"d"}`, "", `connection.secretHeaders.a`},
		{url + `,"secretHeaders":{"Content-Length":"5"}`, "", `connection.secretHeaders.Content-Length`},
		{url + `,"secretHeaders":{"Authorization":"x"},"token":"y"`, "", "connection.secretHeaders"},
		{url + `,"credentials":{"username":"u"},"token":"y"`, "", "connection.token"},
		{url + `,"credentials":{"username":"u:v"}`, "", "connection.credentials.username"},
		{url + `,"token":"y\n"`, "", "connection.token"},
		{url + `,"hmac":{"secret":"s","header":"a b"}`, "", "connection.hmac.header"},
		{url + `,"hmac":{"format":"standard-webhooks","secret":"s"}`, "", "connection.hmac.secret"},
		{url + `,"hmac":{"format":"standard-webhooks","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","header":"X-Sign"}`, "", "connection.hmac.header"},
		{url + `,"hmac":{"format":"standard-webhooks","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","algorithm":"sha512"}`, "", "connection.hmac.algorithm"},
		{url + `,"headers":{"webhook-id":"1"},"hmac":{"format":"standard-webhooks","secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`, "", "connection.hmac.format"},
		{url + `,"hmac":{"secret":"s","header":"User-Agent"}`, "", "connection.hmac.header"},
		{url, `"target":"x"`, "topicMappings[0].target"},
		{url, `"target":"@evil.example"`, "topicMappings[0].target"},
		{url, `"target":"/a b"`, "topicMappings[0].target"},
		{url, `"target":"/a/../b"`, "topicMappings[0].target"},
		{url, `"target":"/${tpoic}"`, "topicMappings[0].target"},
		{url, `"body":"{\"a\":}"`, "topicMappings[0].body"},
		{url, `"body":"${payload","contentType":"text/plain"`, "topicMappings[0].body"},
		{url, `"contentType":"a/b/c","body":"x"`, "topicMappings[0].contentType"},
		{url, `"contentType":"text/plain"`, "topicMappings[0].contentType"},
		{url, `"batch":true,"method":"GET"`, "topicMappings[0].batch"},
		{url, `"batch":true,"contentType":"text/plain","body":"x"`, "topicMappings[0].batch"},
		{url, `"batch":true,"target":"/${topic}"`, "topicMappings[0].target"},
		{url, `"batch":true,"headers":{"A":"${topic}"}`, `topicMappings[0].headers.A`},
		{url, `"headers":{"A":"x","a":"y"}`, `topicMappings[0].headers.a`},
		{url, `"headers":{"A":"${"}`, `topicMappings[0].headers.A`},
		{url, `"headers":{"A":"\u0001"}`, `topicMappings[0].headers.A`},
		{url, `"headers":{"Content-Type":"a/b"}`, `topicMappings[0].headers.Content-Type`},
		{url, `"headers":{"authorization":"Bearer x"}`, `topicMappings[0].headers.authorization`},
	} {
		conn, problems := compile(c.connection, "", "{"+joined(`"name":"m"`, c.mapping)+"}", nil)
		var got []string
		for _, p := range problems {
			got = append(got, p.Path)
			if p.Msg == "" || strings.Contains(p.Msg, "secret@") {
				t.Errorf("%s %s: got %q", c.connection, c.mapping, p.Msg)
			}
		}
		if want := []string{c.path}; conn != nil || !cmp.Equal(got, want) {
			t.Errorf("%s %s: got %q, %v, want %q", c.connection, c.mapping, got, problems, want)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, problems := compile(`"url":"x:","headers":{"a b":""}`, "", `{"name":"m","target":"x"},{"name":"n","body":"{"}`, nil)
	var got []string
	for _, p := range problems {
		got = append(got, p.Path)
	}
	want := []string{"connection.url", `connection.headers["a b"]`, "topicMappings[0].target", "topicMappings[1].body"}
	if !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNothingPrintsSecrets(t *testing.T) {
	t.Parallel()
	conn, problems := compile(`"url":"http://localhost","credentials":{"username":"u","password":"pass-secret"},"token":"token-secret","secretHeaders":{"a b":"key-secret"},"hmac":{"secret":"sign-secret","header":"("}`,
		"", "", nil)
	if text := fmt.Sprintf("%+v", problems); conn != nil || strings.Contains(text, "-secret") {
		t.Errorf("got %s", text)
	}
}
