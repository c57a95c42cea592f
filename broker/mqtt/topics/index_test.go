package topics_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/topics"
	"signalbox/scripts/suite"
)

// seen is a result for one subscriber.
type seen struct {
	topics.Terms
	Own     topics.Terms
	HearsIt bool // receives own messages
}

// subscription is a subscription of the model, numbered by age.
type subscription struct {
	topics.Options
	number int
}

// model is a reference implementation of Index.
type model struct {
	subscriptions map[string]map[string]subscription // by filter and subscriber
	last          int
}

func (m *model) subscribe(filter, who string, o topics.Options) (replaced bool) {
	if m.subscriptions[filter] == nil {
		m.subscriptions[filter] = map[string]subscription{}
	}
	old, replaced := m.subscriptions[filter][who]
	if !replaced {
		m.last++
		old.number = m.last
	}
	m.subscriptions[filter][who] = subscription{o, old.number}
	return replaced
}

func (m *model) unsubscribe(filter, who string) bool {
	_, had := m.subscriptions[filter][who]
	delete(m.subscriptions[filter], who)
	return had
}

// match returns the expected subscribers, and the members of each shared subscription.
func (m *model) match(topic string) (subscribers map[string]seen, groups map[string]map[string]topics.Options) {
	subscribers, groups = map[string]seen{}, map[string]map[string]topics.Options{}
	for filter, all := range m.subscriptions {
		if len(all) == 0 || !matches(inner(filter), topic) {
			continue
		}
		for who, s := range all {
			if inner(filter) != filter {
				if groups[filter] == nil {
					groups[filter] = map[string]topics.Options{}
				}
				groups[filter][who] = s.Options
				continue
			}
			v := subscribers[who]
			extend(&v.Terms, s.Options)
			if !s.NoLocal {
				extend(&v.Own, s.Options)
				v.HearsIt = true
			}
			subscribers[who] = v
		}
	}
	return subscribers, groups
}

func extend(t *topics.Terms, o topics.Options) {
	t.QoS = max(t.QoS, o.QoS)
	t.RetainAsPublished = t.RetainAsPublished || o.RetainAsPublished
	if o.ID != 0 {
		t.IDs = append(t.IDs, o.ID)
		slices.Sort(t.IDs)
	}
}

// list returns the expected result of List without bounds.
func (m *model) list(accept func(string) bool) (all []topics.Entry[string]) {
	for _, filter := range slices.Sorted(maps.Keys(m.subscriptions)) {
		if accept != nil && !accept(filter) {
			continue
		}
		of := m.subscriptions[filter]
		byAge := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[a].number - of[b].number })
		for _, who := range byAge {
			all = append(all, topics.Entry[string]{Filter: filter, Who: who, Options: of[who].Options})
		}
	}
	return all
}

// read converts a result for the comparison with the model.
func read(t *testing.T, m *topics.Matches[string]) (subscribers map[string]seen, groups map[string]map[string]topics.Options) {
	t.Helper()
	subscribers, groups = map[string]seen{}, map[string]map[string]topics.Options{}
	for _, s := range m.Subscribers {
		if _, twice := subscribers[s.Who]; twice {
			t.Errorf("subscriber %q appears twice", s.Who)
		}
		own, hears := s.Own()
		subscribers[s.Who] = seen{s.Terms, own, hears}
	}
	for _, g := range m.Groups {
		groups[g.Filter] = map[string]topics.Options{}
		for m := range g.RoundRobin() {
			groups[g.Filter][m.Who] = m.Options
		}
		if len(groups[g.Filter]) != len(g.Members) {
			t.Errorf("RoundRobin of %s returned %d members, want %d", g.Filter, len(groups[g.Filter]), len(g.Members))
		}
	}
	return subscribers, groups
}

func compare(t *testing.T, x *topics.Index[string], m *model, topic string) {
	t.Helper()
	got, gotGroups := read(t, x.Match(topic))
	want, wantGroups := m.match(topic)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("subscribers of %q (-want +got):\n%s", topic, diff)
	}
	if diff := cmp.Diff(wantGroups, gotGroups); diff != "" {
		t.Fatalf("groups of %q (-want +got):\n%s", topic, diff)
	}
}

// TestIndex compares random changes of an index with the model, for few subscribers and for so
// many that lists have a table.
func TestIndex(t *testing.T) {
	t.Parallel()
	for name, subscribers := range map[string]int{"few subscribers": 3, "many subscribers": 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := suite.Seed(t)
			r := rand.New(rand.NewPCG(seed, 1))
			x, m := topics.NewIndex[string](), &model{subscriptions: map[string]map[string]subscription{}}
			for range 1500 {
				change(t, r, x, m, subscribers)
				compare(t, x, m, randomTopic(r))
			}
			compareLists(t, r, x, m)
		})
	}
}

// change makes one random change, more often of few filters.
func change(t *testing.T, r *rand.Rand, x *topics.Index[string], m *model, subscribers int) {
	t.Helper()
	filter, who := randomFilter(r), "s"+string(rune('A'+r.IntN(subscribers)))
	switch r.IntN(6) {
	case 0:
		filter = "$share/" + words[1+r.IntN(3)] + "/" + filter
	case 1, 2:
		filter = []string{"a/+", "a/b", "#", "$share/g/a/b"}[r.IntN(4)]
	}
	before, was := x.Generation(), m.subscriptions[filter][who]
	changed := true
	if r.IntN(3) == 0 {
		want := m.unsubscribe(filter, who)
		if got := x.Unsubscribe(filter, who); got != want {
			t.Fatalf("unsubscribe %q from %q: got %t, want %t", who, filter, got, want)
		}
		changed = want
	} else {
		o := randomOptions(r)
		want := m.subscribe(filter, who, o)
		if got := x.Subscribe(filter, who, o); got != want {
			t.Fatalf("subscribe %q to %q: got replaced %t, want %t", who, filter, got, want)
		}
		changed = !want || was.Options != o
	}
	if got := x.Generation() != before; got != changed {
		t.Fatalf("%q, %q: a new generation is %t, want %t", filter, who, got, changed)
	}
}

func randomOptions(r *rand.Rand) topics.Options {
	return topics.Options{
		QoS: byte(r.IntN(3)), NoLocal: r.IntN(3) == 0, RetainAsPublished: r.IntN(4) == 0,
		RetainHandling: byte(r.IntN(3)), ID: uint32(r.IntN(4)),
	}
}

func compareLists(t *testing.T, r *rand.Rand, x *topics.Index[string], m *model) {
	t.Helper()
	for name, accept := range map[string]func(string) bool{
		"all": nil, "some": func(f string) bool { return strings.Contains(f, "b") }, "none": func(string) bool { return false },
	} {
		want := m.list(accept)
		for range 50 {
			offset, count := limits(r, len(want))
			total, got := x.List(offset, count, accept)
			if diff := cmp.Diff(slice(want, offset, count), got); diff != "" || total != len(want) {
				t.Fatalf("%s, %d from %d on: total %d, want %d (-want +got):\n%s", name, count, offset, total, len(want), diff)
			}
		}
	}
	all, shared := m.list(nil), m.list(func(f string) bool { return strings.HasPrefix(f, "$share/") })
	if x.Len() != len(all) || x.SharedLen() != len(shared) {
		t.Errorf("got %d subscriptions, %d shared; want %d, %d", x.Len(), x.SharedLen(), len(all), len(shared))
	}
}

// limits returns a random page of n entries, or one beyond.
func limits(r *rand.Rand, n int) (offset, count int) {
	if r.IntN(6) == 0 {
		return r.IntN(n+3) - 1, -1
	}
	return r.IntN(n+3) - 1, r.IntN(n + 3)
}

// slice returns a page of a list.
func slice[T any](all []T, offset, count int) []T {
	all = all[min(max(offset, 0), len(all)):]
	if count >= 0 {
		all = all[:min(count, len(all))]
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// TestMatch tests the rules one by one.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter  string
		matches []string
		passes  []string
	}{
		{"a/b", []string{"a/b"}, []string{"a", "a/b/", "a/b/c", "A/b", "/a/b"}},
		{"#", []string{"a", "/", "/a", "a/b/c"}, []string{"$SYS", "$SYS/a", "$/a"}},
		{"+", []string{"a"}, []string{"/", "/a", "$SYS", "a/b"}},
		{"a/#", []string{"a", "a/", "a/b", "a/b/c"}, []string{"ab", "a b", "b/a"}},
		{"+/#", []string{"a", "/", "a/b"}, []string{"$SYS", "$SYS/a"}},
		{"a/+", []string{"a/", "a/b", "a/$b"}, []string{"a", "a/b/c"}},
		{"a/+/#", []string{"a/", "a/b", "a/b/c"}, []string{"a", "b/b"}},
		{"/+", []string{"/", "/a"}, []string{"a", "a/b"}},
		{"+/+", []string{"/", "/a", "a/b"}, []string{"a", "a/b/c", "$SYS/a"}},
		{"$SYS/#", []string{"$SYS", "$SYS/a", "$SYS/a/b"}, []string{"$SYSTEM", "SYS/a"}},
		{"$SYS/+", []string{"$SYS/a"}, []string{"$SYS", "$SYS/a/b"}},
		{"+/$a", []string{"b/$a"}, []string{"$a/$a"}},
	} {
		t.Run(c.filter, func(t *testing.T) {
			t.Parallel()
			plain, shared := topics.NewIndex[int](), topics.NewIndex[int]()
			plain.Subscribe(c.filter, 1, topics.Options{})
			shared.Subscribe("$share/g/"+c.filter, 1, topics.Options{})
			for _, topic := range slices.Concat(c.matches, c.passes) {
				want := slices.Contains(c.matches, topic)
				if got := len(plain.Match(topic).Subscribers) == 1; got != want {
					t.Errorf("%q matches %q: got %t, want %t", c.filter, topic, got, want)
				}
				if got := len(shared.Match(topic).Groups) == 1; got != want {
					t.Errorf("shared %q matches %q: got %t, want %t", c.filter, topic, got, want)
				}
			}
		})
	}
}

// TestRoundRobin advances the turn of a shared subscription across results of different age.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	x := topics.NewIndex[string]()
	for _, who := range []string{"A", "B", "C"} {
		x.Subscribe("$share/g/t/+", who, topics.Options{QoS: 1})
	}
	early := x.Match("t/1")
	var got []string
	for i := range 6 {
		m := early
		if i%2 == 1 {
			x.Subscribe("other", "A", topics.Options{ID: uint32(i)})
			m = x.Match("t/2")
		}
		for member := range m.Groups[0].RoundRobin() {
			got = append(got, member.Who)
			break
		}
	}
	if diff := cmp.Diff([]string{"A", "B", "C", "A", "B", "C"}, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

// TestResultIsShared returns the same result for topics with the same single filter.
func TestResultIsShared(t *testing.T) {
	t.Parallel()
	x := topics.NewIndex[int]()
	x.Subscribe("a/+", 1, topics.Options{})
	first := x.Match("a/b")
	if x.Match("a/c") != first {
		t.Error("two topics with the same filter have two results")
	}
	x.Subscribe("a/+", 1, topics.Options{QoS: 2})
	if second := x.Match("a/b"); second == first || second.Subscribers[0].QoS != 2 || first.Subscribers[0].QoS != 0 {
		t.Error("a change has not created a new result")
	}
}
