package http

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzLocation checks that the URL stays on the server and below the configured path, whatever a
// message contains.
func FuzzLocation(f *testing.F) {
	for _, seed := range []string{"/a/b?c=d", "/../x", "/%2e%2E/x", "//evil.example/x", "/a;b/..;c/", "/\\..", "?a=/../", "/%", "/a#b", "@evil.example", "/[x]", ""} {
		f.Add(seed)
	}
	base, err := url.Parse("https://example.com:1234/api/v1/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, added string) {
		if added != "" && added[0] != '/' && added[0] != '?' {
			added = "/" + added // Compile ensures that
		}
		p, query, err := location(base.EscapedPath(), added)
		if err != nil {
			return
		}
		u, err := resolve(base, p, query)
		if err != nil {
			t.Fatalf("%q: %v", added, err)
		}
		text := u.String()
		again, err := url.Parse(text)
		if err != nil || again.Host != base.Host || again.Scheme != base.Scheme || again.User != nil || again.Fragment != "" {
			t.Fatalf("%q leads to %q, %v", added, text, err)
		}
		if again.EscapedPath() != p || again.RawQuery != query {
			t.Fatalf("%q leads to %q, want path %q and query %q", added, text, p, query)
		}
		if clean := path.Clean(again.Path); clean != "/api/v1" && !strings.HasPrefix(clean, "/api/v1/") {
			t.Fatalf("%q leads to %q", added, clean)
		}
	})
}
