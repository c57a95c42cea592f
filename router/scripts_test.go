package router

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/monitor"
	"signalbox/handlers"
)

// script returns a module of the console.
func script(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("console/static/" + name)
	must(t, err)
	return string(b)
}

// jsonNames returns the names of a struct in JSON.
func jsonNames(v any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestPalette checks that the palette knows what the search returns: each kind of result
// has a page and a name, and it reads only members that exist.
func TestPalette(t *testing.T) {
	t.Parallel()
	palette := script(t, "palette.js")
	page := newFixture(t).signedIn(t).page(t, "/ui/home", 200)
	kind, _ := reflect.TypeFor[handlers.SearchResult]().FieldByName("Kind")
	for name := range strings.SplitSeq(kind.Tag.Get("enum"), "|") {
		if !strings.Contains(palette, "\n\t"+name+": ") {
			t.Errorf("the palette has no page of a %s", name)
		}
		if !regexp.MustCompile(`<dialog id="palette"[^>]*\sdata-` + name + `="[^"]+"`).MatchString(page) {
			t.Errorf("the palette has no name for a %s", name)
		}
	}
	read := func(pattern string, known []string) {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(palette, -1)
		if found == nil {
			t.Errorf("the palette does not match %s", pattern)
		}
		for _, m := range found {
			for name := range strings.SplitSeq(m[1], ", ") {
				if !slices.Contains(known, name) {
					t.Errorf("the palette reads %s, which the search does not return", name)
				}
			}
		}
	}
	read(`const \{ ([a-z_, ]+) \} = JSON\.parse`, jsonNames(handlers.SearchRecord{}))
	read(`\(\{ ([a-z, ]+) \}\) => .p/`, jsonNames(handlers.SearchResult{}))
	read(`\bresult\.([a-z]+)`, jsonNames(handlers.SearchResult{}))
	read(`\$\{(?:project|broker)\.([a-z]+)\}`, jsonNames(handlers.SearchRef{}))
}

// TestLive checks that the overview follows events and members of them that exist.
func TestLive(t *testing.T) {
	t.Parallel()
	listeners := regexp.MustCompile(`source\.addEventListener\('([a-z]+)'`).FindAllStringSubmatch(script(t, "live.js"), -1)
	if len(listeners) != 2 {
		t.Errorf("the script listens for %q", listeners)
	}
	for _, m := range listeners {
		if !slices.Contains(monitor.EventTypes[:], m[1]) {
			t.Errorf("no event has the type %s", m[1])
		}
	}
	f := newFixture(t)
	b := f.signedIn(t)
	page := b.page(t, f.path("/ui/p/{projectId}/b/{brokerId}/overview"), 200)
	if want := `data-live="../../../../../api/projects/` + strings.TrimPrefix(f.path("/{projectId}/brokers/{brokerId}/events"), "/") + `"`; !strings.Contains(page, want) {
		t.Errorf("the overview lacks %s:\n%s", want, page)
	}
	metrics := regexp.MustCompile(`data-metric="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(metrics) != 6 {
		t.Errorf("%d figures are live, want all 6:\n%s", len(metrics), page)
	}
	for _, m := range metrics {
		if !slices.Contains(jsonNames(broker.MetricSample{}), m[1]) {
			t.Errorf("no sample has %s", m[1])
		}
	}
}
