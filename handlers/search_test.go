package handlers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSearchesAreBounded bounds the searches of a caller and of all.
func TestSearchesAreBounded(t *testing.T) {
	t.Parallel()
	var s searches
	var ends []func()
	for i := range maxSearches {
		end, err := s.begin(fmt.Sprint("caller ", i/maxCallerSearches))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	for caller, status := range map[string]int{"caller 0": 429, "other": 503} {
		if _, err := s.begin(caller); err == nil || ErrorFor(err).Status != status || ErrorFor(err).Code != CodeSearchBusy {
			t.Errorf("%s: got %v, want %d", caller, err, status)
		}
	}
	for _, end := range ends {
		end()
	}
	if s.all != 0 || len(s.byCaller) != 0 {
		t.Errorf("%d are left, of callers %v", s.all, s.byCaller)
	}
}

// TestSearchOrder adds results in any order, of which the same are shown in the same order.
func TestSearchOrder(t *testing.T) {
	t.Parallel()
	at := func(project, broker, name string) SearchResult {
		return SearchResult{ID: name, Name: name, Project: &SearchRef{project, project}, Broker: &SearchRef{broker, broker}}
	}
	want := []SearchResult{at("p", "a", "M"), at("p", "b", "M"), at("q", "a", "M"), at("p", "b", "m"), at("p", "a", "m1"), at("p", "a", "M2")}
	others := []SearchResult{at("p", "c", "m3"), at("a", "a", "am")}
	for range 50 {
		all := append(append([]SearchResult{}, want...), others...)
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		m := matches{low: "m", count: len(want)}
		for _, one := range all {
			m.add(one, one.Name)
		}
		if diff := cmp.Diff(want, m.best()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}
