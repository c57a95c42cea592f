package router

import (
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestForwardedPath checks that the path of a forwarded request is read as that of the original one.
func TestForwardedPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/a/b", "/api/a%2Fb/c", "/api/%25/%3F/ä", "/api/a%00b", "/api/"} {
		want := markEscapedSlashes(httptest.NewRequest("GET", path, nil)).URL.Path
		forwarded := &url.URL{}
		forwarded.Path, forwarded.RawPath = unmarkEscapedSlashes(want)
		if got := markEscapedSlashes(httptest.NewRequest("GET", forwarded.RequestURI(), nil)).URL.Path; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
