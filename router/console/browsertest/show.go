package browsertest

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Theme is how the user's system asks for pages to be shown.
type Theme string

// Themes.
const (
	Light         Theme = "light"
	Dark          Theme = "dark"
	ForcedColors  Theme = "forced colors"
	ReducedMotion Theme = "reduced motion"
)

// features returns the theme as media features.
func (t Theme) features() []*emulation.MediaFeature {
	f := map[string]string{"prefers-color-scheme": "light", "forced-colors": "none", "prefers-reduced-motion": "no-preference"}
	switch t {
	case Dark:
		f["prefers-color-scheme"] = "dark"
	case ForcedColors:
		f["forced-colors"] = "active"
	case ReducedMotion:
		f["prefers-reduced-motion"] = "reduce"
	}
	var all []*emulation.MediaFeature
	for name, value := range f {
		all = append(all, &emulation.MediaFeature{Name: name, Value: value})
	}
	return all
}

// Variant is one way in which a page is shown.
type Variant struct {
	Theme Theme
	Width int // CSS pixels; 320 is also a page of 1280 at 400 %
}

func (v Variant) String() string { return fmt.Sprintf("%s %d", v.Theme, v.Width) }

// Some are the variants of every run: each theme and each width.
var Some = []Variant{{Light, 1280}, {Dark, 390}, {Light, 320}}

// Every are all variants, for campaigns.
var Every = []Variant{{Light, 1280}, {Light, 390}, {Light, 320}, {Dark, 1280}, {Dark, 390}, {Dark, 320}, {ForcedColors, 1280}, {ReducedMotion, 390}}

// Pictured are the variants of which Check keeps a screenshot.
var Pictured = []Variant{{Light, 1280}, {Light, 390}, {Dark, 1280}, {Dark, 390}}

// height of all variants.
const height = 800

// Show shows the page in another way, as on another screen.
func (p *Page) Show(v Variant) {
	p.t.Helper()
	p.do(emulation.SetEmulatedMedia().WithFeatures(v.Theme.features()),
		emulation.SetDeviceMetricsOverride(int64(v.Width), height, 1, false))
	p.WaitFor(fmt.Sprintf("innerWidth === %d", v.Width))
	p.tag = v.String() + ": "
}

// settle ends the animations of the page that take time, during which its colours and places are not
// those that it ends with, and scrolls to its beginning, where nothing covers a part of it
// that scrolling would show.
func (p *Page) settle() {
	p.t.Helper()
	p.inspect(`document.getAnimations().filter(a => a.timeline === document.timeline).forEach(a => { try { a.finish() } catch { a.cancel() } }); scrollTo({top: 0, left: 0, behavior: 'instant'})`, nil)
}

//go:embed overflow.js
var overflowScript string

// CheckWidth fails the test if the page scrolls sideways, and names the elements that
// are too wide.
func (p *Page) CheckWidth() {
	p.t.Helper()
	var found []string
	p.settle()
	if p.inspect(describeScript+overflowScript, &found); len(found) > 0 {
		p.t.Errorf("%sthe page scrolls sideways: %s", p.tag, strings.Join(found, "\n\t"))
	}
}

// ScreenshotsVariable is the environment variable that names the directory in which
// screenshots are kept.
const ScreenshotsVariable = "SCREENSHOTS"

// Screenshot keeps a picture of the whole page, if ScreenshotsVariable is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv(ScreenshotsVariable)
	if dir == "" {
		return
	}
	var picture []byte
	// What lies beyond the viewport may not have been drawn yet when the first one is taken.
	p.do(chromedp.FullScreenshot(&picture, 100), chromedp.FullScreenshot(&picture, 100))
	name = strings.NewReplacer("/", "-", " ", "-", ":", "").Replace(name) + ".png"
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // nothing in it is secret
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil { //nolint:gosec // likewise
		p.t.Fatal(err)
	}
}

// Check shows the page in each variant. It fails the test for what is not accessible and
// for sideways scrolling, and keeps a screenshot of each variant of Pictured.
func (p *Page) Check(name string, variants ...Variant) {
	p.t.Helper()
	for _, v := range variants {
		p.CheckWidths(name, v)
		p.CheckAccessibility()
	}
}

// CheckWidths is Check without accessibility, which takes most of its time.
func (p *Page) CheckWidths(name string, variants ...Variant) {
	p.t.Helper()
	for _, v := range variants {
		p.Show(v)
		p.CheckWidth()
		if slices.Contains(Pictured, v) {
			p.Screenshot(name + " " + v.String())
		}
	}
}
