package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/audits"
	protocol "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"signalbox/scripts/suite"
)

// Page is a tab. Its methods end the test if they fail.
type Page struct {
	t      testing.TB
	ctx    context.Context
	faults faults
	tag    string // the variant that is shown, for messages

	profile cdp.BrowserContextID
}

// Option changes a tab before it loads its first page.
type Option func(*Page)

// WithoutScripts opens a tab whose pages run no JavaScript.
func WithoutScripts(p *Page) { p.do(emulation.SetScriptExecutionDisabled(true)) }

// WithCookie opens a tab with a cookie for the server of a URL.
func WithCookie(url, name, value string) Option {
	return func(p *Page) { p.do(network.SetCookie(name, value).WithURL(url)) }
}

// WithLanguage opens a tab whose user prefers a language.
func WithLanguage(tag string) Option {
	return func(p *Page) { p.do(network.SetExtraHTTPHeaders(network.Headers{"Accept-Language": tag})) }
}

// Open opens a tab and loads a page in it. At the end of the test, every fault that the
// browser saw in it fails the test, but those that Expect named.
func Open(t testing.TB, url string, options ...Option) *Page {
	t.Helper()
	p := &Page{t: t}
	closeTab, err := p.openTab(start(t))
	if err != nil {
		t.Fatal("open a tab: ", err)
	}
	t.Cleanup(func() {
		t.Helper()
		p.report()
		closeTab()
	})
	p.do(audits.Enable(), emulation.SetFocusEmulationEnabled(true))
	p.Show(Variant{Light, 1280})
	for _, o := range options {
		o(p)
	}
	p.Go(url)
	return p
}

// openTab opens a window in a profile of its own, which chromedp would open without a
// window, and Chromium refuses to.
func (p *Page) openTab(browser context.Context) (closeTab func(), err error) {
	executor := cdp.WithExecutor(browser, chromedp.FromContext(browser).Browser)
	profile, err := target.CreateBrowserContext().WithDisposeOnDetach(true).Do(executor)
	if err != nil {
		return nil, err
	}
	id, err := target.CreateTarget("about:blank").WithBrowserContextID(profile).WithNewWindow(true).Do(executor)
	if err != nil {
		return nil, err
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithTargetID(id))
	p.ctx, p.profile = ctx, profile
	chromedp.ListenTarget(ctx, p.faults.observe)
	closeTab = func() {
		cancel()
		target.DisposeBrowserContext(profile).Do(executor) //nolint:errcheck // it ends with the browser
	}
	if err := firstRun(ctx, cancel); err != nil {
		closeTab()
		return nil, err
	}
	return closeTab, nil
}

// do runs actions and ends the test if one fails.
func (p *Page) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := p.try(actions...); err != nil {
		p.t.Fatalf("%sthe browser: %v", p.tag, err)
	}
}

// staleNode is what DevTools respond if a node went with its document: another page was
// being loaded while chromedp searched it.
const staleNode = "Could not find node with given id"

// act looks an element up and acts on it, in one of the two documents if the page changes
// meanwhile.
func (p *Page) act(actions ...chromedp.Action) {
	p.t.Helper()
	suite.Eventually(p.t, func() error {
		err := p.try(actions...)
		var response *cdproto.Error
		if errors.As(err, &response) && response.Message == staleNode {
			return err // before anything was clicked or typed, which needs no node
		}
		if err != nil {
			p.t.Fatalf("%sthe browser: %v", p.tag, err)
		}
		return nil
	})
}

func (p *Page) try(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(p.ctx, suite.HangLimit)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// report fails the test for the faults so far.
func (p *Page) report() {
	p.t.Helper()
	if err := p.try(chromedp.Evaluate("0", nil)); err != nil { // its response follows the events before it
		p.t.Errorf("the page does not respond any more: %v", err)
	}
	for _, text := range p.faults.unexpected() {
		p.t.Error(text)
	}
}

// Expect names a part of a fault that this test provokes, such as "404 Not Found". The
// test fails if no fault contains it.
func (p *Page) Expect(part string) { p.faults.expect(part) }

// Go loads a page.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
}

// Reload loads the page anew.
func (p *Page) Reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
}

// Back goes back in the tab's history, without waiting for the page: the browser may
// have kept it, and then it is not loaded.
func (p *Page) Back() {
	p.t.Helper()
	p.Evaluate("history.back()", nil)
}

// URL returns the address of the page.
func (p *Page) URL() (url string) {
	p.t.Helper()
	p.Evaluate("location.href", &url)
	return url
}

// Cookie returns the only cookie that the page's server has set.
func (p *Page) Cookie() (name, value string) {
	p.t.Helper()
	var all []*network.Cookie
	p.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		all, err = network.GetCookies().Do(ctx)
		return err
	}))
	if len(all) != 1 {
		p.t.Fatalf("the page has %d cookies", len(all))
	}
	return all[0].Name, all[0].Value
}

// Evaluate evaluates an expression of JavaScript, also where the page's policy or
// WithoutScripts forbids the page to, and decodes its value.
func (p *Page) Evaluate(expression string, into any) {
	p.t.Helper()
	p.do(chromedp.Evaluate(expression, into))
}

// WaitFor waits until an expression of JavaScript is true.
func (p *Page) WaitFor(expression string) {
	p.t.Helper()
	suite.Eventually(p.t, func() error {
		var holds bool
		if err := p.try(chromedp.Evaluate("Boolean("+expression+")", &holds)); err != nil {
			return fmt.Errorf("%s: %w", expression, err) // another page is being loaded
		}
		if !holds {
			return errors.New(expression + " does not hold")
		}
		return nil
	})
}

// Click clicks into the middle of the first element that a selector selects, once it is
// visible.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.act(chromedp.Click(selector, chromedp.ByQuery))
}

// Drag presses the mouse on an element, moves it and releases it. The places are parts of the
// width of the element: 0 is its left end, 1 its right one.
func (p *Page) Drag(selector string, from, to float64) {
	p.t.Helper()
	var box struct{ X, Y, Width, Height float64 }
	p.Evaluate(fmt.Sprintf("(e => { e.scrollIntoView({ block: 'center', behavior: 'instant' }); return e.getBoundingClientRect().toJSON() })(document.querySelector(%q))", selector), &box)
	y := box.Y + box.Height/2
	p.do(chromedp.MouseEvent(input.MousePressed, box.X+from*box.Width, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(input.MouseMoved, box.X+to*box.Width, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(input.MouseReleased, box.X+to*box.Width, y, chromedp.ButtonLeft))
}

// Submit clicks like Click and waits until the page that this leads to is loaded.
func (p *Page) Submit(selector string) {
	p.t.Helper()
	p.act(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery))
		return err
	}))
}

// Fill replaces the content of a field, key by key.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.act(chromedp.WaitVisible(selector, chromedp.ByQuery),
		chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).value = ''", selector), nil), // chromedp.Clear leaves what was typed
		chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// Choose chooses a file in a field.
func (p *Page) Choose(selector, path string) {
	p.t.Helper()
	p.act(chromedp.SetUploadFiles(selector, []string{path}, chromedp.ByQuery))
}

// Download clicks on the link to a file and returns the path of the file, which has the name.
func (p *Page) Download(selector, name string) (path string) {
	p.t.Helper()
	dir := p.t.TempDir()
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		return protocol.SetDownloadBehavior(protocol.SetDownloadBehaviorBehaviorAllow).WithBrowserContextID(p.profile).WithDownloadPath(dir).
			Do(cdp.WithExecutor(ctx, chromedp.FromContext(ctx).Browser))
	}))
	p.Click(selector)
	path = filepath.Join(dir, name) // the name of the file once it is complete
	suite.Eventually(p.t, func() error {
		info, err := os.Stat(path)
		if err == nil && info.Size() == 0 { // the browser reserves the name before the file is complete
			err = errors.New(name + " is empty")
		}
		return err
	})
	return path
}

// Text returns the visible text of the first element that a selector selects.
func (p *Page) Text(selector string) (text string) {
	p.t.Helper()
	p.Evaluate(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text)
	return strings.TrimSpace(text)
}

// Count returns the number of elements that a selector selects.
func (p *Page) Count(selector string) (n int) {
	p.t.Helper()
	p.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n)
	return n
}

// inspect evaluates an expression beside the page's own scripts: it shares the document
// with them, but no variable and no policy. A promise is awaited.
func (p *Page) inspect(expression string, into any) {
	p.t.Helper()
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		tree, err := page.GetFrameTree().Do(ctx)
		if err != nil {
			return err
		}
		world, err := page.CreateIsolatedWorld(tree.Frame.ID).WithWorldName("browsertest").Do(ctx)
		if err != nil {
			return err
		}
		return chromedp.Evaluate(expression, into, func(e *runtime.EvaluateParams) *runtime.EvaluateParams {
			return e.WithContextID(world).WithAwaitPromise(true)
		}).Do(ctx)
	}))
}
