package console_test

import (
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/router/manual"
)

// manualPaths returns the path of each page of the manual, of its index and of a search.
func manualPaths() (paths []string) {
	paths = []string{"/docs", "/docs?q=dead+letter"}
	for _, page := range manual.New("").Pages() {
		paths = append(paths, "/docs/"+page.Name)
	}
	return paths
}

// checkManual checks every page of the manual in each variant.
func checkManual(t *testing.T, variants []browsertest.Variant) {
	api := apitest.New(t)
	for _, path := range manualPaths() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			p := browsertest.Open(t, api.URL+path)
			p.CheckKeyboard()
			p.Check("manual"+strings.TrimPrefix(path, "/docs"), variants...)
		})
	}
}

func TestManual(t *testing.T) {
	t.Parallel()
	checkManual(t, browsertest.Some)
}

// TestCampaignManual shows every page in all variants.
func TestCampaignManual(t *testing.T) {
	t.Parallel()
	checkManual(t, browsertest.Every)
}

// TestManual_below_a_path searches and follows links, without JavaScript.
func TestManual_below_a_path(t *testing.T) {
	t.Parallel()
	address := behind(t, apitest.New(t).URL)
	p := browsertest.Open(t, address+"/docs", browsertest.WithoutScripts)
	want := func(url, heading string) {
		t.Helper()
		if got := p.URL(); got != address+url || p.Text("h1") != heading {
			t.Errorf("got %s with %q, want %s with %q", got, p.Text("h1"), address+url, heading)
		}
	}
	p.Submit(`a[href="docs/streams"]`)
	want("/docs/streams", "Streams")
	p.Fill("#q", "dead letter")
	p.Submit("header button")
	want("/docs?q=dead+letter", "Search")
	p.Submit(".results a")
	if !strings.HasPrefix(p.URL(), address+"/docs/") || p.Count("main h2") == 0 {
		t.Errorf("a result leads to %s", p.URL())
	}
	p.Submit(".home")
	want("/docs", "Manual")
}

// TestManual_skip_link moves the focus to the content.
func TestManual_skip_link(t *testing.T) {
	t.Parallel()
	p := browsertest.Open(t, apitest.New(t).URL+"/docs/brokers")
	p.Press(browsertest.Tab + browsertest.Enter)
	p.WaitFor("location.hash === '#content'")
	p.Press(browsertest.Tab)
	p.WaitFor("document.activeElement.closest('main')")
}

// TestAPIDocs loads the documentation of the API: the page is ours, what it shows is
// the library's.
func TestAPIDocs(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := browsertest.Open(t, api.URL+"/api/docs")
	p.WaitFor("document.querySelector('.opblock')")
	p.Fill(".operation-filter-input", "dead letter")
	p.WaitFor("document.querySelectorAll('.opblock').length < 20")
	plain := browsertest.Open(t, api.URL+"/api/docs", browsertest.WithoutScripts)
	if text := plain.Text("body"); !strings.Contains(text, "/api/openapi.json") {
		t.Errorf("without scripts the page shows %q", text)
	}
}
