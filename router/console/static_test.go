package console

import (
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// static returns a file of static.
func static(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(sourceFiles, "static/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// theme is the colours of the tokens in light or dark.
type theme map[string]color

// color is a colour in sRGB, each part from 0 to 1.
type color [3]float64

var (
	tokenPattern = regexp.MustCompile(`--([a-z0-9-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\);`)
	aliasPattern = regexp.MustCompile(`--([a-z0-9-]+): var\(--([a-z0-9-]+)\);`)
)

// themes reads the tokens of the design system from the file that browsers read.
func themes(t *testing.T) (light, dark theme) {
	t.Helper()
	light, dark = theme{}, theme{}
	root, _, _ := strings.Cut(static(t, "console.css"), "}")
	for _, m := range tokenPattern.FindAllStringSubmatch(root, -1) {
		light[m[1]], dark[m[1]] = parseColor(t, m[2]), parseColor(t, m[3])
	}
	for _, m := range aliasPattern.FindAllStringSubmatch(root, -1) {
		if c, ok := light[m[2]]; ok {
			light[m[1]], dark[m[1]] = c, dark[m[2]]
		}
	}
	return light, dark
}

func parseColor(t *testing.T, hex string) (c color) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatalf("colour %q: %v", hex, err)
		}
		c[i] = float64(n) / 255
	}
	return c
}

// luminance returns the relative luminance [WCAG 2.2].
func (c color) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast returns the contrast ratio of two colours [WCAG 2.2].
func contrast(a, b color) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// mix returns what color-mix(in srgb) does with a part of a.
func mix(a, b color, part float64) (c color) {
	for i := range c {
		c[i] = a[i]*part + b[i]*(1-part)
	}
	return c
}

// TestContrast computes the contrast of text, controls and lines on every background,
// in both themes.
func TestContrast(t *testing.T) {
	t.Parallel()
	light, dark := themes(t)
	for name, colors := range map[string]theme{"light": light, "dark": dark} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, background := range []string{"page", "card", "tint"} {
				colors.require(t, 4.5, background, "text", "quiet", "accent", "good", "bad", "warn")
				colors.require(t, 3, background, "series-1", "series-2", "series-3", "series-4", "control-border")
			}
			colors.require(t, 4.5, "accent", "on-accent")
			colors.require(t, 4.5, "bad", "on-accent")
			for _, filled := range []string{"accent", "bad"} { // a button under the pointer
				colors["hovered"] = mix(colors["on-accent"], colors[filled], 0.12)
				colors.require(t, 4.5, "hovered", "on-accent")
			}
		})
	}
}

// require fails the test unless each colour has a contrast on a background.
func (colors theme) require(t *testing.T, least float64, background string, names ...string) {
	t.Helper()
	for _, name := range names {
		a, okA := colors[name]
		b, okB := colors[background]
		if !okA || !okB {
			t.Fatalf("the token %s or %s is missing", name, background)
		}
		if got := contrast(a, b); got < least {
			t.Errorf("%s on %s has a contrast of %.2f, want at least %.1f", name, background, got, least)
		}
	}
}

// TestKnownContrast checks the computation with values of the specification.
func TestKnownContrast(t *testing.T) {
	t.Parallel()
	if got := contrast(color{}, color{1, 1, 1}); math.Abs(got-21) > 0.001 {
		t.Errorf("black on white has %v, want 21", got)
	}
	if got := contrast(parseColor(t, "767676"), color{1, 1, 1}); math.Abs(got-4.54) > 0.005 {
		t.Errorf("#767676 on white has %v, want 4.54", got)
	}
}

// TestNoOtherColors checks that the style sheet has no colour beside the tokens.
func TestNoOtherColors(t *testing.T) {
	t.Parallel()
	_, rules, _ := strings.Cut(static(t, "console.css"), "\n}\n")
	if found := regexp.MustCompile(`#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(`).FindAllString(rules, -1); found != nil {
		t.Errorf("colours that are not tokens: %q", found)
	}
}

// TestDashes checks that series differ by more than colour.
func TestDashes(t *testing.T) {
	t.Parallel()
	dashes := map[string]bool{}
	for i := 1; i <= maxSeries; i++ {
		m := regexp.MustCompile(`(?m)^\.s` + strconv.Itoa(i) + ` \{ stroke: var\(--series-` + strconv.Itoa(i) + `\);(.*)\}$`).FindStringSubmatch(static(t, "console.css"))
		if m == nil {
			t.Fatalf("series %d has no rule", i)
		}
		dashes[strings.TrimSpace(m[1])] = true
	}
	if len(dashes) != maxSeries {
		t.Errorf("the lines of %d series have %d patterns", maxSeries, len(dashes))
	}
}

// TestSizes checks what a browser has to load.
func TestSizes(t *testing.T) {
	t.Parallel()
	sums := map[string]int{}
	served, err := loadAssets()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range served.files {
		sums[path.Ext(name)] += len(file.plain)
	}
	const limit = 30 << 10
	for _, kind := range []string{".js", ".css"} {
		if got := sums[kind]; got == 0 || got > limit {
			t.Errorf("the %s files have %d bytes, want at most %d", kind, got, limit)
		}
	}
}

// TestModules checks that a module imports only modules that are there, by relative paths:
// their directory is named after the hash of all of them.
func TestModules(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(sourceFiles, "static/*.js")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	imports := regexp.MustCompile(`(?:from|import)\s*\(?'([^']+)'`)
	for _, p := range names {
		b, err := fs.ReadFile(sourceFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range imports.FindAllStringSubmatch(string(b), -1) {
			if name, ok := strings.CutPrefix(m[1], "./"); !ok || !slices.Contains(names, "static/"+name) {
				t.Errorf("%s imports %q, which is not a module of the console", p, m[1])
			}
		}
	}
}

// TestOneTrustedTypesPolicy checks that HTML becomes elements in one place only.
func TestOneTrustedTypesPolicy(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(sourceFiles, "static/*.js")
	if err != nil {
		t.Fatal(err)
	}
	sinks := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTMLUnsafe|\beval\b|new Function|createPolicy`)
	for _, p := range names {
		b, err := fs.ReadFile(sourceFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if path.Base(p) == "main.js" {
			want = 2 // the policy and its only use
		}
		if found := sinks.FindAllString(string(b), -1); len(found) != want {
			t.Errorf("%s has %q, want %d", p, found, want)
		}
	}
}
