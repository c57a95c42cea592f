package streams

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// link returns an active stream with a source and a target.
func link(name, source, target string) Definition {
	return Definition{Stream: broker.Stream{StreamName: name, SourceTopic: source, TargetTopic: target, Active: true}}
}

// inactiveLink is link for an inactive stream.
func inactiveLink(name, source, target string) Definition {
	d := link(name, source, target)
	d.Active = false
	return d
}

func TestLoop(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		active  []Definition
		changed Definition
		want    string
	}{
		"nothing comes back":                    {changed: link("a", "x", "y")},
		"without target nothing comes back":     {changed: link("a", "#", "")},
		"a source takes its target":             {changed: link("a", "x", "x"), want: "a x a"},
		"a source with a wildcard takes it":     {changed: link("a", "x/+/z", "x/y/z"), want: "a x/y/z a"},
		"a source takes the level above":        {changed: link("a", "x/#", "x"), want: "a x a"},
		"an inactive stream closes none":        {changed: inactiveLink("a", "x", "x")},
		"through another stream":                {active: []Definition{link("b", "x/#", "z")}, changed: link("a", "z", "x/y"), want: "a x/y b z a"},
		"an inactive stream leads nowhere":      {active: []Definition{inactiveLink("b", "x/#", "z")}, changed: link("a", "z", "x/y")},
		"a stream without target leads nowhere": {active: []Definition{link("b", "x/#", "")}, changed: link("a", "+", "x/y")},
		"what is changed counts no more":        {active: []Definition{link("a", "x", "y"), link("b", "y", "x")}, changed: link("a", "x", "z")},
		"what is changed leads nowhere else":    {active: []Definition{link("a", "z", "q"), link("b", "q", "x")}, changed: link("a", "x", "z")},
		"the shortest way is told": {
			active:  []Definition{link("b", "1", "2"), link("c", "2", "0"), link("d", "1", "3"), link("e", "3", "4"), link("f", "4", "0"), link("g", "1", "0")},
			changed: link("a", "0", "1"), want: "a 1 g 0 a",
		},
		"a way that comes in from aside is none": {active: []Definition{link("b", "q", "x"), link("c", "y", "z")}, changed: link("a", "x", "y")},
		"a loop of others is not its own":        {active: []Definition{link("b", "y", "z"), link("c", "z", "y"), link("d", "q", "x")}, changed: link("a", "x", "y")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(findLoop(test.active, test.changed), " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestReplayLoop(t *testing.T) {
	t.Parallel()
	d := link("a", "x/#", "")
	others := []Definition{d, link("b", "r/+", "x/1")}
	for topic, want := range map[string]string{"x": "a x a", "x/y": "a x/y a", "r/1": "a r/1 b x/1 a", "r": "", "y": ""} {
		if got := strings.Join(findReplayLoop(others, d, topic), " "); got != want {
			t.Errorf("to %q: got %q, want %q", topic, got, want)
		}
	}
	if got := findReplayLoop(others, inactiveLink("a", "x/#", ""), "x"); got != nil {
		t.Errorf("an inactive stream took %q", got)
	}
}

func TestLoopError(t *testing.T) {
	t.Parallel()
	chain := []string{"a", "x/y", "b", "z", "a"}
	for op, want := range map[string]string{opCreate: "targettopic", opModify: "targettopic", opReplay: "replaytopic"} {
		err := loopError(op, chain)
		if got := refusedFields(t, err, op); got != want {
			t.Errorf("refused %q, want %q", got, want)
		}
		if named := `"a" → "x/y" → "b" → "z" → "a"`; !strings.Contains(err.Error(), named) {
			t.Errorf("%q does not name %s", err, named)
		}
	}
}

func TestFormatChainIsBounded(t *testing.T) {
	t.Parallel()
	var chain []string
	for i := range 21 {
		chain = append(chain, fmt.Sprint(i))
	}
	if got := formatChain(chain); strings.Contains(got, "…") || strings.Count(got, "→") != 20 {
		t.Errorf("21 names became %s", got)
	}
	got := formatChain(append(chain, "21"))
	if want := `"9" → … → "12"`; !strings.Contains(got, want) || strings.Count(got, "→") != 20 {
		t.Errorf("22 names became %s, want %s in it", got, want)
	}
}

// pattern converts a filter to a regular expression, except for the rule about
// "$".
func pattern(filter string) *regexp.Regexp {
	var b strings.Builder
	for i, level := range strings.Split(filter, "/") {
		switch {
		case level == "#" && i == 0:
			b.WriteString(`.*`)
		case level == "#":
			b.WriteString(`(/.*)?`)
		default:
			if i > 0 {
				b.WriteString("/")
			}
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(level), `\+`, `[^/]*`))
		}
	}
	return regexp.MustCompile(`(?s)^` + b.String() + `$`)
}

// FuzzMatches compares FilterMatches and the index of sources with a regular
// expression.
func FuzzMatches(f *testing.F) {
	f.Add("a/+/#", "a/b")
	f.Add("+", "$a")
	f.Add("/#", "")
	f.Add("#", "//")
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if !broker.ValidFilter(filter) || !broker.ValidTopic(topic) {
			return
		}
		want := pattern(filter).MatchString(topic) && (topic[0] != '$' || filter[0] != '+' && filter[0] != '#')
		if got := broker.FilterMatches(filter, topic); got != want {
			t.Errorf("FilterMatches(%q, %q) = %t, want %t", filter, topic, got, want)
		}
		if filter[0] == '$' || topic[0] == '$' {
			return
		}
		var x sourceIndex
		x.add(filter, new(link("a", filter, "")))
		if got := len(x.remove(topic)) == 1; got != want {
			t.Errorf("the index finds %q by %q: %t, want %t", filter, topic, got, want)
		}
		if got := x.remove(topic); len(got) > 0 {
			t.Errorf("the index found %q twice", filter)
		}
	})
}

// TestLoopAtRandom compares findLoop with a search that compares every pair of
// streams.
func TestLoopAtRandom(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	level := func(of string) string { return string(of[r.IntN(len(of))]) }
	loops := 0
	for range 3000 {
		var all []Definition
		for i := range 1 + r.IntN(12) {
			source := level("abc+") + "/" + level("abc+#")
			d := link(fmt.Sprint(i), source, level("abc")+"/"+level("abc"))
			d.Active = r.IntN(5) > 0
			all = append(all, d)
		}
		got, want := findLoop(all, all[0]), distance(all)
		if len(got) > 0 {
			loops++
		}
		if len(got) != max(0, 2*want+1) {
			t.Fatalf("seed %d: got %q, want a loop of %d streams, in %+v", seed, got, want, all)
		}
		checkChain(t, all, got)
	}
	if loops < 300 || loops > 2700 {
		t.Errorf("%d of 3000 were loops, which shows too little", loops)
	}
}

// distance returns the length of the shortest loop through the first stream, or
// -1.
func distance(all []Definition) int {
	leads := func(a, b Definition) bool {
		return a.Active && b.Active && broker.FilterMatches(b.SourceTopic, a.TargetTopic)
	}
	reached := map[int]bool{0: true}
	for n := 1; n <= len(all); n++ {
		next := map[int]bool{}
		for i := range reached {
			for j := range all {
				next[j] = next[j] || leads(all[i], all[j])
			}
		}
		if next[0] {
			return n
		}
		reached = map[int]bool{}
		for j, ok := range next {
			if ok {
				reached[j] = true
			}
		}
	}
	return -1
}

// checkChain fails the test unless every stream of a chain takes the topic
// before it and publishes to the one after it.
func checkChain(t *testing.T, all []Definition, chain []string) {
	t.Helper()
	find := func(name string) Definition {
		return all[slices.IndexFunc(all, func(d Definition) bool { return d.StreamName == name })]
	}
	for i := 0; i+2 < len(chain); i += 2 {
		from, topic, to := find(chain[i]), chain[i+1], find(chain[i+2])
		if from.TargetTopic != topic || !broker.FilterMatches(to.SourceTopic, topic) || !from.Active || !to.Active {
			t.Fatalf("%q is not a path: %+v does not lead to %+v", chain, from, to)
		}
	}
}

// TestLongLoop closes a loop of 10,000 streams, all of which could take topics
// of all others by their wildcards.
func TestLongLoop(t *testing.T) {
	t.Parallel()
	const n = 10_000
	all := ring(n)
	got := findLoop(all[1:], all[0])
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("s", i), fmt.Sprintf("t/%d/x", i+1))
	}
	want[len(want)-1] = "t/0/x"
	if diff := cmp.Diff(append(want, "s0"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ring returns streams that each publish to the next, the last to the first.
func ring(n int) []Definition {
	all := make([]Definition, 0, n)
	for i := range n {
		all = append(all, link(fmt.Sprint("s", i), fmt.Sprintf("t/%d/+", i), fmt.Sprintf("t/%d/x", (i+1)%n)))
	}
	return all
}

func BenchmarkLoop(b *testing.B) {
	const n = 10_000
	all := ring(n)
	wide := make([]Definition, 0, n)
	for i := range n {
		wide = append(wide, link(fmt.Sprint("s", i), "t/#", fmt.Sprintf("t/%d", i)))
	}
	for name, test := range map[string]struct {
		active  []Definition
		changed Definition
	}{
		"Unrelated": {all, link("new", "a", "b")},
		"Longest":   {all[1:], all[0]},
		"Widest":    {wide, link("new", "t/9999", "t/new")},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				findLoop(test.active, test.changed)
			}
		})
	}
}
