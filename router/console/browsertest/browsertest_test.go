package browsertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"signalbox/router/console/browsertest"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// strict is a policy as strict as that of our pages.
const strict = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// site is a server of pages with known faults.
type site struct {
	mu    sync.Mutex // guards pages
	pages map[string]string
	url   string
}

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]string{"/style.css": style}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

const style = `
body { margin: 0 8px; font: 16px/1.5 sans-serif; background: #fff; color: #111; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } a { color: #9cf; } }
@media (forced-colors: active) { #theme::after { content: "forced" } }
@media (prefers-reduced-motion: reduce) { #theme::after { content: "reduced" } }
@media (prefers-color-scheme: dark) { #theme::after { content: "dark" } }
:focus-visible { outline: 2px solid; }
.pale { color: #eee; background: #fff; }
.wide { width: 400px; }
.clipped { overflow-x: auto; }
.plain:focus-visible { outline: none; }
.cover { position: fixed; inset: 0; background: #fff; }
a, button, input { display: inline-block; min-height: 24px; min-width: 24px; }
.small { min-width: 0; min-height: 0; width: 9px; height: 9px; padding: 0; }
`

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	text, found := s.pages[r.URL.Path]
	s.mu.Unlock()
	switch {
	case r.URL.Path == "/abort":
		panic(http.ErrAbortHandler)
	case !found:
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(r.URL.Path, ".css"):
		w.Header().Set("Content-Type", "text/css")
	case strings.HasSuffix(r.URL.Path, ".js"):
		w.Header().Set("Content-Type", "text/javascript")
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	w.Header().Set("Content-Security-Policy", strict)
	io.WriteString(w, text) //nolint:errcheck // a browser that has gone needs no page
}

// page adds a page with this body and this script, and returns its URL.
func (s *site) page(name, body, script string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages["/"+name+".js"] = script
	s.pages["/"+name] = `<!DOCTYPE html><html lang="en"><head><title>` + name + `</title><link rel="icon" href="data:,">` +
		`<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="style.css">` +
		`<script type="module" src="` + name + `.js"></script></head><body><main><h1>Page</h1>` + body + `</main></body></html>`
	return s.url + "/" + name
}

// recorder is a test that records its failures.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards the fields below
	failures []string
	cleanup  []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// failures runs a test and returns why it fails.
func failures(t *testing.T, test func(t testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	test(r)
	for _, f := range slices.Backward(r.cleanup) {
		f()
	}
	return r.failures
}

// TestFaults opens pages that are wrong in one way each, and expects that this and
// nothing else is found.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := serve(t)
	check := func(p *browsertest.Page) {}
	const failed = ".catch(() => { document.body.dataset.failed = 'true' })"
	tried := func(p *browsertest.Page) { p.WaitFor("document.body.dataset.failed") }
	width := func(p *browsertest.Page) {
		p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 320})
		p.CheckWidth()
	}
	keyboard := func(p *browsertest.Page) { p.CheckKeyboard() }
	tests := []struct {
		name, body, script string
		check              func(p *browsertest.Page)
		want               []string // a part of each failure
	}{
		{"good", `<p>Text <a href="x">link</a></p><label>When <input type="datetime-local"></label> <button>Go</button>`, "", func(p *browsertest.Page) { p.Check("good", browsertest.Every...); p.CheckKeyboard() }, nil},
		{"console", "", "console.error('wrong', 7); console.warn('a warning')", check, []string{`console.error: "wrong" 7`}},
		{"exception", "", "throw new Error('thrown')", check, []string{"exception: Error: thrown"}},
		{"rejection", "", "Promise.reject(new Error('rejected'))", check, []string{"exception: Error: rejected"}},
		{"missing", `<img src="missing.png" alt="">`, "", check, []string{"missing.png: 404"}},
		{"refused", "", "fetch('http://127.0.0.1:1/')" + failed, tried, []string{"connect-src", "connect-src", "Fetch API cannot load"}},
		{"aborted", "", "fetch('abort')" + failed, tried, []string{"/abort: net::ERR_EMPTY_RESPONSE"}},
		{"inline-style", `<p style="color: red">x</p>`, "", check, []string{"style-src", "style-src"}},
		{"inline-script", `<script>1</script>`, "", check, []string{"script-src", "script-src"}},
		{"trusted-types", "", "document.querySelector('main').innerHTML = '<p>'", check, []string{"TrustedHTML", "trusted-types", "TrustedHTML"}},
		{"axe", `<p class="pale">pale</p><img src="style.css"><input><button class="small" aria-label="x"></button><button class="small" aria-label="y"></button>`, "",
			func(p *browsertest.Page) { p.CheckAccessibility() }, []string{"color-contrast", "image-alt", "label", "target-size", "target-size"}},
		{"sideways", `<div class="wide">wide</div><div class="clipped" tabindex="0"><div class="wide">in a region that scrolls</div></div>`, "", width, []string{"light 320: the page scrolls sideways: 408 px in a window of 320 px"}},
		{"no-outline", `<button class="plain">b</button>`, "", keyboard, []string{"not with one of 2 px"}},
		{"covered", `<button>b</button><div class="cover"></div>`, "", keyboard, []string{"is covered or outside"}},
		{"trap", `<button id="a">a</button><button>b</button>`, "document.querySelector('#a').addEventListener('keydown', e => e.preventDefault())", keyboard, []string{"<button> cannot be reached with Tab"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := failures(t, func(t testing.TB) {
				p := browsertest.Open(t, s.page(tt.name, tt.body, tt.script))
				tt.check(p)
			})
			if len(got) != len(tt.want) {
				t.Fatalf("got %d failures, want %d:\n%s", len(got), len(tt.want), strings.Join(got, "\n"))
			}
			for _, want := range tt.want {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("no failure holds %q:\n%s", want, strings.Join(got, "\n"))
				}
			}
		})
	}
}

func TestExpect(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := failures(t, func(t testing.TB) {
		p := browsertest.Open(t, s.page("expect", "", "console.error('known'); console.error('known as well')"))
		p.Expect("known")
		p.Expect("never")
	})
	if want := []string{"expected, and did not occur: never"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPage does what a user does: reads, types, clicks, goes back.
func TestPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	second := s.page("second", `<p id="text">second page</p>`, "")
	p := browsertest.Open(t, s.page("first", `<form action="second"><label>Name <input id="n" name="n" value="old"></label> <button>Go</button></form><p id="out"></p>`,
		"n.addEventListener('input', () => { out.textContent = n.value })"))
	if got := p.Traffic(); got.Requests != 3 || got.Bytes < len(style) {
		t.Errorf("got %+v, want 3 requests", got)
	}
	p.Fill("#n", "new")
	p.WaitFor("document.querySelector('#out').textContent === 'new'")
	p.Submit("button")
	if got := p.URL(); got != second+"?n=new" || p.Text("#text") != "second page" || p.Text("#missing") != "" || p.Count("p") != 1 {
		t.Errorf("got the page %s with %q", got, p.Text("#text"))
	}
	p.Back()
	p.WaitFor("location.pathname === '/first'")
	p.Reload()
	order := p.CheckKeyboard()
	if len(order) != 2 || !strings.HasSuffix(order[0], `<input id="n" name="n" value="old">`) || !strings.HasSuffix(order[1], "<button>") {
		t.Errorf("walked to %q", order)
	}
}

// TestVariants reads which of the page's rules apply.
func TestVariants(t *testing.T) {
	t.Parallel()
	p := browsertest.Open(t, serve(t).page("themes", `<p id="theme"></p>`, ""))
	for _, v := range browsertest.Every {
		p.Show(v)
		var content string
		var width int
		p.Evaluate(`getComputedStyle(document.querySelector('#theme'), '::after').content`, &content)
		p.Evaluate("document.documentElement.clientWidth", &width)
		want := map[browsertest.Theme]string{browsertest.Light: "none", browsertest.Dark: `"dark"`, browsertest.ForcedColors: `"forced"`, browsertest.ReducedMotion: `"reduced"`}[v.Theme]
		if content != want || width != v.Width {
			t.Errorf("%v: got %s and %d px, want %s", v, content, width, want)
		}
	}
}

// TestWithoutScripts runs none of the page's.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	url := serve(t).page("script", `<p id="out">off</p>`, "out.textContent = 'on'")
	if got := browsertest.Open(t, url).Text("#out"); got != "on" {
		t.Errorf("with scripts: %q", got)
	}
	if got := browsertest.Open(t, url, browsertest.WithoutScripts).Text("#out"); got != "off" {
		t.Errorf("without: %q", got)
	}
}

// TestScreenshot is not parallel: it sets a variable of the environment.
func TestScreenshot(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(browsertest.ScreenshotsVariable, dir)
	browsertest.Open(t, serve(t).page("shown", "", "")).Check("a page", browsertest.Variant{Theme: browsertest.Dark, Width: 390})
	assertPNG(t, dir+"/a-page-dark-390.png")
}

// TestTabs_are_separate: a cookie of one is not sent by another one.
func TestTabs_are_separate(t *testing.T) {
	t.Parallel()
	url := serve(t).page("cookies", "", "")
	browsertest.Open(t, url).Evaluate("document.cookie = 'a=b'", nil)
	var cookies string
	if browsertest.Open(t, url).Evaluate("document.cookie", &cookies); cookies != "" {
		t.Errorf("got %q", cookies)
	}
}

func assertPNG(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "\x89PNG") {
		t.Errorf("%s is no picture: %v", path, err)
	}
}

// TestFill replaces what a field was rendered with, and what was typed into it.
func TestFill(t *testing.T) {
	t.Parallel()
	s := serve(t)
	page := s.page("fill", `<label>Name <input value="rendered"></label><label>Text <textarea>rendered</textarea></label>`, "")
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		p := browsertest.Open(t, page, options...)
		for _, selector := range []string{"input", "textarea"} {
			for _, text := range []string{"one", "two"} {
				p.Fill(selector, text)
				var got string
				if p.Evaluate("document.querySelector('"+selector+"').value", &got); got != text {
					t.Errorf("%s, %s filled with %q has %q", mode, selector, text, got)
				}
			}
		}
	}
}

// TestAct_while_the_page_changes looks an element up, and another page is loaded before it
// is used: it is looked up once more.
func TestAct_while_the_page_changes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := browsertest.Open(t, s.page("before", "<button>Before</button>", ""))
	after := s.page("after", "<button>After</button>", "")
	tries := 0
	p.Act(chromedp.QueryAfter("button", func(ctx context.Context, _ runtime.ExecutionContextID, nodes ...*cdp.Node) error {
		if tries++; tries == 1 {
			if err := chromedp.Navigate(after).Do(ctx); err != nil {
				return err
			}
		}
		return dom.ScrollIntoViewIfNeeded().WithNodeID(nodes[0].NodeID).Do(ctx)
	}, chromedp.ByQuery))
	if tries != 2 {
		t.Errorf("looked up %d times", tries)
	}
}

// TestDrag drags over a part of an element, in both directions.
func TestDrag(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := browsertest.Open(t, s.page("drag", `<p id="bar">bar</p>`, `const bar = document.querySelector('#bar'), { left, width } = bar.getBoundingClientRect()
		for (const type of ['pointerdown', 'pointerup']) addEventListener(type, e => { bar.dataset[type] = ((e.clientX - left) / width).toFixed(1) })`))
	for _, c := range []struct {
		from, to float64
		want     string
	}{{0.2, 0.7, "0.2 0.7"}, {0.9, 0.1, "0.9 0.1"}} {
		p.Drag("#bar", c.from, c.to)
		p.WaitFor(fmt.Sprintf("document.querySelector('#bar').dataset.pointerdown + ' ' + document.querySelector('#bar').dataset.pointerup === %q", c.want))
	}
}

// TestDownload_and_Choose downloads a file by a link, and chooses it in a field.
func TestDownload_and_Choose(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := browsertest.Open(t, s.page("files", `<a href="style.css" download>Style</a> <label>File <input type="file"></label>`, ""))
	path := p.Download("a", "style.css")
	if text, err := os.ReadFile(path); err != nil || string(text) != style {
		t.Errorf("downloaded %q, %v", text, err)
	}
	p.Choose("input", path)
	p.WaitFor(fmt.Sprintf("document.querySelector('input').files[0]?.size === %d", len(style)))
}
