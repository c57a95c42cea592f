package pages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// people is a list that changes while it is read.
type people struct {
	names  []string // in order
	meddle func()   // before each fetch
	fail   error
}

func (p *people) source() Source[string] {
	return Source[string]{
		Name: func(s string) string { return s },
		Fetch: func(_ context.Context, _ bool, count, offset int) (int, []string, error) {
			p.meddle()
			if p.fail != nil {
				return 0, nil, p.fail
			}
			from := min(offset, len(p.names))
			return len(p.names), slices.Clone(p.names[from:min(from+count, len(p.names))]), nil
		},
	}
}

// An entry that exists from the beginning to the end is read once, one that is
// created or deleted meanwhile at most once.
func TestList_that_changes_while_it_is_read(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		there := map[string]bool{}
		for range 5000 + rnd.IntN(2000) {
			there[fmt.Sprintf("%08d", rnd.IntN(1e8))] = true
		}
		p := &people{}
		always := maps.Clone(there)
		p.meddle = func() {
			for name := range there {
				if rnd.IntN(8) == 0 {
					delete(there, name)
					delete(always, name)
				}
			}
			for range rnd.IntN(1000) {
				there[fmt.Sprintf("%08d", rnd.IntN(1e8))] = true
			}
			p.names = slices.Sorted(maps.Keys(there))
		}
		page, err := List(t.Context(), p.source(), broker.ListOptions[string]{Count: -1})
		if err != nil {
			t.Fatal(err)
		}
		read := map[string]int{}
		for name, err := range page.Items {
			if err != nil {
				t.Fatal(err)
			}
			read[name]++
		}
		for name := range always {
			if read[name] != 1 {
				t.Fatalf("%s was there all the time and was read %d times", name, read[name])
			}
		}
		for name, n := range read {
			if n > 1 {
				t.Fatalf("%s was read %d times", name, n)
			}
		}
	}
}

func TestList_out_of_order_is_read_by_its_offsets(t *testing.T) {
	t.Parallel()
	p := &people{meddle: func() {}}
	for i := range 3500 {
		p.names = append(p.names, fmt.Sprint(3500-i))
	}
	page, err := List(t.Context(), p.source(), broker.ListOptions[string]{Count: -1})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range page.Items {
		got = append(got, name)
	}
	if !slices.Equal(got, p.names) {
		t.Errorf("%d entries, want %d in their order", len(got), len(p.names))
	}
}

func TestList_ends_with_an_error(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	p := &people{meddle: func() {}}
	for i := range 3000 {
		p.names = append(p.names, fmt.Sprintf("%04d", i))
	}
	page, err := List(t.Context(), p.source(), broker.ListOptions[string]{Count: -1})
	if err != nil {
		t.Fatal(err)
	}
	p.fail = broken
	n, last := 0, error(nil)
	for _, err := range page.Items {
		n, last = n+1, err
	}
	if n != Records+1 || !errors.Is(last, broken) {
		t.Errorf("%d entries, the last with error %v", n, last)
	}
	if _, err := List(t.Context(), p.source(), broker.ListOptions[string]{Count: -1}); !errors.Is(err, broken) {
		t.Errorf("List() = %v", err)
	}
	if _, err := List(t.Context(), p.source(), broker.ListOptions[string]{Count: -1, Match: broker.MatchFunc(func(string) bool { return true })}); !errors.Is(err, broken) {
		t.Errorf("List() with a filter = %v", err)
	}
}
