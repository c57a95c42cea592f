package console_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/router/console"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// thorough are the pages that every run shows in all of browsertest.Some: each has parts
// that no other has.
var thorough = []string{"login", "home", "overview", "sessions", "role-edit", "check", "users", "topics", "bridge-config", "client"}

// strange are pages of brokers that are not connected, which show the reason.
var strange = []string{"overview unreachable", "topics unreachable", "clients unreachable"}

// narrow is the variant in which most goes wrong.
var narrow = []browsertest.Variant{{Theme: browsertest.Light, Width: 320}}

// checkPages checks the pages of a plant that show selects, in the variants that it returns,
// and their widths in more. kind is a part of the names of the pictures.
func checkPages(t *testing.T, kind string, p *plant, show func(name string) []browsertest.Variant, widths []browsertest.Variant, options ...browsertest.Option) {
	s := newSession(t, p.URL)
	pages := s.walk(p)
	pages["login"] = p.URL + "/ui/login"
	for name, address := range pages {
		variants := show(name)
		if variants == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := options
			if name != "login" {
				given = append(given[:len(given):len(given)], browsertest.WithCookie(p.URL, s.cookie.Name, s.cookie.Value))
			}
			tab := browsertest.Open(t, address, given...)
			checkFrame(t, tab)
			checkText(t, tab)
			if isOfOther := strings.Contains(name, " "); !isOfOther && tab.Count(".empty") > 0 {
				t.Errorf("the page has no data: %s", tab.Text(".empty"))
			}
			tab.CheckKeyboard()
			checkVariants(tab, kind+" "+name, variants, widths)
			if ask := questions[name]; ask != "" {
				tab.Go(address + "&select=all")
				tab.Click(`[value="` + ask + `"]`)
				tab.WaitFor("document.readyState === 'complete' && document.querySelector('#ask')")
				checkVariants(tab, kind+" "+name+" question", variants, widths)
			}
		})
	}
}

// questions are the buttons that ask whether something is done with selected rows, by page.
var questions = map[string]string{"dead-letters": "ask-delete"}

// checkVariants checks a page in variants, and its widths in more.
func checkVariants(tab *browsertest.Page, name string, variants, widths []browsertest.Variant) {
	tab.Check(name, variants...)
	for _, v := range widths {
		if !slices.Contains(variants, v) {
			tab.CheckWidths(name, v)
		}
	}
}

// maxElements bounds a page, whatever the service holds.
const maxElements = 1500

// checkFrame checks what all pages have in common.
func checkFrame(t *testing.T, p *browsertest.Page) {
	t.Helper()
	var title, lang string
	p.Evaluate("document.title", &title)
	p.Evaluate("document.documentElement.lang", &lang)
	if !strings.HasSuffix(title, " · signalbox") || lang == "" || p.Count("h1") != 1 || p.Count("main") != 1 {
		t.Errorf("title %q, language %q, %d headings, %d main parts", title, lang, p.Count("h1"), p.Count("main"))
	}
	if n := p.Count("*"); n > maxElements {
		t.Errorf("the page has %d elements, %d are the most", n, maxElements)
	}
}

// checkText checks that the names of objects are shown as text, with marks instead of
// characters that change its direction.
func checkText(t *testing.T, p *browsertest.Page) {
	t.Helper()
	if n := p.Count("img, script:not([src]), [onerror]"); n > 0 {
		t.Errorf("the page has %d elements that it did not write", n)
	}
	var text string
	p.Evaluate(`document.title + document.body.innerText + [...document.querySelectorAll("input, textarea, option")].map(e => e.value + e.textContent).join()`, &text)
	if namesHostile(p.URL()) && !strings.Contains(text, markup) {
		t.Errorf("the page does not show the name in its address, %s:\n%s", p.URL(), text)
	}
	p.Evaluate(`document.title + document.body.innerText`, &text)
	if strings.Contains(text, "\u202e") {
		t.Errorf("the page changes the direction of its text:\n%q", text)
	}
}

// TestPages shows every page of the table once, with hostile names, and some in more
// variants.
func TestPages(t *testing.T) {
	t.Parallel()
	checkPages(t, "hostile", newPlant(t, hostileName), func(name string) []browsertest.Variant {
		switch {
		case slices.Contains(thorough, name):
			return browsertest.Some
		case !strings.Contains(name, " ") || slices.Contains(strange, name) || strings.HasPrefix(name, "connection-"):
			return narrow
		}
		return nil
	}, nil)
}

// TestPages_without_scripts reads every page of the table in a browser that runs none: no
// button that only a script serves can be seen. The user wants the pseudo language of the tests,
// and every heading, label and button is in it.
func TestPages_without_scripts(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plain)
	s := newSession(t, p.URL)
	tab := browsertest.Open(t, p.URL+"/ui/login", browsertest.WithoutScripts, browsertest.WithCookie(p.URL, s.cookie.Name, s.cookie.Value),
		browsertest.WithLanguage(console.PseudoLanguage))
	for name, address := range s.walk(p) {
		if strings.Contains(name, " ") {
			continue
		}
		tab.Go(address)
		checkFrame(t, tab)
		var dead []string
		tab.Evaluate(`[...document.querySelectorAll('button[type="button"]:not([popovertarget]), [data-script]')].filter(e => e.checkVisibility()).map(e => e.outerHTML)`, &dead)
		if len(dead) > 0 {
			t.Errorf("%s shows what needs a script: %s", name, strings.Join(dead, "\n\t"))
		}
		var fixed []string
		tab.Evaluate(fixedTexts, &fixed)
		for _, text := range fixed {
			if !slices.Contains(ofNoLanguage, text) {
				t.Errorf("%s shows %q in every language", name, text)
			}
		}
	}
}

// fixedTexts are the words of headings, labels and buttons that are in no language.
const fixedTexts = `[...document.querySelectorAll('h1,h2,h3,legend,label,th[scope=col],dt,button,summary,p,small,caption,.state')]
	.map(e => [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.data).join('').trim())
	.filter(text => /\p{L}{2}/u.test(text) && !/[⟦⟧]/.test(text))`

// ofNoLanguage are the words of protocols, values of enumerations, names within the plant, and what
// brokers respond.
var ofNoLanguage = []string{"signalbox", "API", "JSON", "TLS (mqtts://, wss://)", "root@example.com", "default", "embedded", "far", "unreachable", "site",
	"standard-webhooks", "sha256", "sha512", "dropNewest", "dropOldest",
	"broker", "http-bridge", "all", "no such table", "behind the gate", "old", "test"}

// variantsVariable is the environment variable with the number of variants, of 8, in which
// the campaign checks everything of a page; with 8 it checks all pages in all ways.
const variantsVariable = "PAGE_VARIANTS"

// TestCampaignPages shows every page of the table with plain names, in all variants of which
// pictures are kept; and a quarter of them, which are drawn, with hostile names and in another
// language than English, whose words are longer. Everything is checked in some variants, which
// are drawn for each page.
func TestCampaignPages(t *testing.T) {
	random, n := suite.Rand(t), suite.FromEnvironment(t, variantsVariable, 1)
	draw := func(name string) (drawn []browsertest.Variant) {
		if strings.Contains(name, " ") {
			return nil
		}
		for _, i := range random.Perm(len(browsertest.Every))[:min(n, len(browsertest.Every))] {
			drawn = append(drawn, browsertest.Every[i])
		}
		return drawn
	}
	quarter := func(show func(name string) []browsertest.Variant) func(name string) []browsertest.Variant {
		return func(name string) []browsertest.Variant {
			if n < len(browsertest.Every) && random.IntN(4) > 0 {
				return nil
			}
			return show(name)
		}
	}
	t.Run("plain", func(t *testing.T) { checkPages(t, "plain", newPlant(t, plain), draw, browsertest.Pictured) })
	t.Run("hostile", func(t *testing.T) { checkPages(t, "hostile", newPlant(t, hostileName), quarter(draw), nil) })
	language := []string{"de", "fr", "es", console.PseudoLanguage}[random.IntN(4)]
	t.Run(language, func(t *testing.T) {
		all := func(string) []browsertest.Variant { return narrow }
		checkPages(t, language, newPlant(t, plain), quarter(all), nil, browsertest.WithLanguage(language))
	})
}
