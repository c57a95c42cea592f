package topictree_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/topictree"
)

// valuesOf requests the numbers of one topic.
func valuesOf(tree *topictree.Tracker, topic string) broker.TopicValues {
	return tree.Values([]string{topic})[0]
}

// wantSeries compares the numbers of a topic: its series in the form "name=1,,2", with nothing
// for a second without a number.
func wantSeries(t *testing.T, v broker.TopicValues, want ...string) {
	t.Helper()
	got := []string{}
	for _, s := range v.Series {
		var texts []string
		for _, value := range s.Values {
			text := ""
			if value != nil {
				text = fmt.Sprint(*value)
			}
			texts = append(texts, text)
		}
		got = append(got, s.Name+"="+strings.Join(texts, ","))
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// wantReason checks why a topic is not recorded, "" if it is.
func wantReason(t *testing.T, v broker.TopicValues, want string) {
	t.Helper()
	if v.Reason != want || v.Recorded != (want == "") || v.Series == nil {
		t.Errorf("%s: recorded %t, reason %q, want %q", v.Topic, v.Recorded, v.Reason, want)
	}
}

func TestValuesAreRecordedFromTheFirstRequest(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	send := func(payloads ...string) {
		for _, p := range payloads {
			tree.Observe("t", []byte(p), 0, false)
		}
	}
	send("1")
	wantSeries(t, valuesOf(tree, "t"))
	send(" 20.5\n", "21.5")
	c.advance(2 * time.Second)
	send("-3", "on", "", "[4]", `"5"`, "0x6", "1e999", "1e301", "NaN", `{"b":{"x":7,"y":{"z":8,"deep":{"w":1}}},"a":9,"none":null,"text":"1"}`)
	v := valuesOf(tree, "t")
	wantSeries(t, v, "=21,,-3", "b.x=,,7", "b.y.z=,,8", "a=,,9")
	wantReason(t, v, "")
	if v.From != 1_000_000 || v.Step != 1 || v.Topic != "t" {
		t.Errorf("%s from %d in steps of %d", v.Topic, v.From, v.Step)
	}
	send(`{"fifth":1,"a":11}`)
	wantSeries(t, valuesOf(tree, "t"), "=21,,-3", "b.x=,,7", "b.y.z=,,8", "a=,,10")
}

// TestValuesOfATopicThatLeavesTheTree: the numbers stay for ten minutes, the topic only for its
// time to live; a member without numbers in that time makes place for another.
func TestValuesOfATopicThatLeavesTheTree(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	valuesOf(tree, "t")
	tree.Observe("t", []byte(`{"a":1,"b":1,"c":1,"d":1}`), 0, false)
	for range 12 {
		c.advance(50 * time.Second)
		if n := len(valuesOf(tree, "t").Series); n != 4 && c.read().UnixMilli() < 1_600_000 {
			t.Errorf("%d series at %d", n, c.read().UnixMilli())
		}
		tree.Tidy()
	}
	tree.Observe("t", []byte(`{"e":2}`), 0, false)
	v := valuesOf(tree, "t")
	if len(v.Series) != 1 || v.Series[0].Name != "e" || len(v.Series[0].Values) != 600 || *v.Series[0].Values[599] != 2 || v.From != 1_001_000 {
		t.Errorf("after ten minutes: %d series from %d", len(v.Series), v.From)
	}
}

func TestRecordingEndsAMinuteAfterTheLastRequest(t *testing.T) {
	t.Parallel()
	recorded := "=" + strings.Repeat(",", 59) + "1"
	for _, tt := range []struct {
		after time.Duration
		tidy  bool
		want  []string
	}{
		{time.Minute - 1, true, []string{recorded}},
		{time.Minute, true, nil},
		{time.Minute, false, nil},
	} {
		tree, c := newTracker()
		valuesOf(tree, "t")
		c.advance(59 * time.Second)
		tree.Observe("t", []byte("1"), 0, false)
		c.advance(tt.after - 59*time.Second)
		if tt.tidy {
			tree.Tidy()
		}
		wantSeries(t, valuesOf(tree, "t"), tt.want...)
	}
}

// TestRecordedTopicsAreBounded records as many topics as may be. A topic that is no longer
// requested makes place for another.
func TestRecordedTopicsAreBounded(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	name := func(i int) string { return fmt.Sprint("t/", i) }
	for i := range 100 {
		wantReason(t, valuesOf(tree, name(i)), "")
	}
	wantReason(t, valuesOf(tree, "one more"), broker.ValuesLimit)
	wantReason(t, valuesOf(tree, name(99)), "")
	c.advance(30 * time.Second)
	valuesOf(tree, name(7))
	c.advance(30 * time.Second)
	for i := range 99 {
		wantReason(t, valuesOf(tree, fmt.Sprint("other/", i)), "")
	}
	wantReason(t, valuesOf(tree, name(7)), "")
	wantReason(t, valuesOf(tree, name(8)), broker.ValuesLimit)
}

func TestTopicsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	tree, _ := newTracker(func(o *topictree.Options) { o.Limits.Publish = 1 })
	for _, topic := range []string{"$SYS/uptime", strings.Repeat("x", topictree.MaxTopic+1), "a/#", "\x00"} {
		wantReason(t, valuesOf(tree, topic), broker.ValuesUntracked)
	}
	tree.AddFilter("a/#")
	wantReason(t, valuesOf(tree, "b"), broker.ValuesUntracked)
	wantReason(t, valuesOf(tree, "a/b"), "")
	publish(tree, "a/c")
	wantReason(t, valuesOf(tree, "a/b"), broker.ValuesUntracked) // its messages would exceed the limit
	wantReason(t, valuesOf(tree, "a/c"), "")
	tree.SetTTL(0)
	wantReason(t, valuesOf(tree, "a/c"), broker.ValuesUntracked)
	tree.SetTTL(time.Minute)
	tree.Observe("a/c", []byte("1"), 0, false)
	wantSeries(t, valuesOf(tree, "a/c")) // it was not recorded while nothing was tracked
}

// TestRecordingReadsABoundedPart: of a second with many messages the first ones count, and the
// next second begins anew.
func TestRecordingReadsABoundedPart(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	valuesOf(tree, "t")
	for i := range 1000 {
		tree.Observe("t", fmt.Append(nil, i/128), 0, false)
	}
	wantSeries(t, valuesOf(tree, "t"), "=0")
	c.advance(time.Second)
	for _, n := range []int{60 << 10, 60 << 10, 60 << 10} {
		tree.Observe("t", fmt.Appendf(nil, "%*d", n, n), 0, false)
	}
	tree.Observe("t", []byte("1"), 0, false)
	wantSeries(t, valuesOf(tree, "t"), "=0,61440")
	c.advance(time.Second)
	tree.Observe("t", []byte("2"), 0, false)
	wantSeries(t, valuesOf(tree, "t"), "=0,61440,2")
}

// TestFollowerRecordsValues subscribes at the first request and forgets the numbers with the
// subscription.
func TestFollowerRecordsValues(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		request := func() broker.TopicValues {
			list, err := f.Values(t.Context(), []string{"t"})
			if err != nil {
				t.Fatal(err)
			}
			return list[0]
		}
		wantReason(t, request(), "")
		s.feeds[0].deliver("t", []byte("1"), 0, false)
		wantSeries(t, request(), "=1")
		s.feeds[0].end()
		synctest.Wait()
		wantSeries(t, request())
		if len(s.feeds) != 2 {
			t.Errorf("%d subscriptions", len(s.feeds))
		}
	})
}

// TestValuesModel compares random messages, requests and steps of time with a list of all
// numbers since the recording began.
func TestValuesModel(t *testing.T) {
	t.Parallel()
	type observed struct {
		second int64
		name   string
		value  float64
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		tree, c := newTracker()
		var all []observed
		began, requested := int64(-1), time.Time{}
		for range 2000 {
			now := c.read()
			switch random.IntN(5) {
			case 0:
				c.advance(time.Duration(random.IntN(1+random.IntN(40_000))) * time.Millisecond)
			case 1, 2, 3:
				name, v := string(rune('a'+random.IntN(maxRecorded))), float64(random.IntN(100))
				tree.Observe("t", fmt.Appendf(nil, `{"%s":%v}`, name, v), 0, false)
				all = append(all, observed{now.Unix(), name, v})
			case 4:
				if began < 0 || now.Sub(requested) >= time.Minute {
					began, all = now.Unix(), nil
				}
				requested = now
				first := max(began, now.Unix()-599)
				got := valuesOf(tree, "t")
				if got.From != first*1000 {
					t.Fatalf("seed %d: from %d, want %d", seed, got.From, first*1000)
				}
				sums, counts, names := map[string]map[int64]float64{}, map[string]map[int64]int{}, []string{}
				for _, o := range all {
					if o.second < first {
						continue
					}
					if sums[o.name] == nil {
						sums[o.name], counts[o.name], names = map[int64]float64{}, map[int64]int{}, append(names, o.name)
					}
					sums[o.name][o.second] += o.value
					counts[o.name][o.second]++
				}
				if len(got.Series) != len(names) {
					t.Fatalf("seed %d: %d series, want %q", seed, len(got.Series), names)
				}
				for _, s := range got.Series {
					if !slices.Contains(names, s.Name) || len(s.Values) != int(now.Unix()-first+1) {
						t.Fatalf("seed %d: series %q with %d values", seed, s.Name, len(s.Values))
					}
					for i, v := range s.Values {
						second := first + int64(i)
						n := counts[s.Name][second]
						if (v != nil) != (n > 0) || v != nil && math.Abs(*v-sums[s.Name][second]/float64(n)) > 1e-9 {
							t.Fatalf("seed %d: %s in second %d is %v, want the mean of %d", seed, s.Name, second, v, n)
						}
					}
				}
			}
		}
	}
}

// maxRecorded is how many series a topic has at most.
const maxRecorded = 4

// FuzzNumbers records any payload. What is recorded is bounded, finite and, of a payload that
// is a number, that number.
func FuzzNumbers(f *testing.F) {
	for _, p := range []string{"21.5", " -0e-7 ", "1e999", "9e300", "NaN", "", "{}", `{"a":1,"a":-1e300,"b":{"c":{"d":{"e":1}}},"":{"":0}}`, `{"a":[{"b":1}],"\ud800":1}`,
		`{"a":` + strings.Repeat(`{"a":`, 9999) + "1" + strings.Repeat("}", 9999) + "}", strings.Repeat("[", 20_000), `{"` + strings.Repeat("x", 200) + `":1}`, "1" + strings.Repeat("0", 70_000)} {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		tree, _ := newTracker()
		valuesOf(tree, "t")
		for range 3 {
			tree.Observe("t", payload, 0, false)
		}
		got := valuesOf(tree, "t")
		if len(got.Series) > maxRecorded {
			t.Fatalf("%d series", len(got.Series))
		}
		for _, s := range got.Series {
			if v := *s.Values[0]; len(s.Name) > 128 || !(math.Abs(v) <= 1e300) {
				t.Errorf("%q is %v", s.Name, v)
			}
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
		var number *float64
		if json.Unmarshal(payload, &number) == nil && number != nil && math.Abs(*number) <= 1e300 && len(payload) <= 64<<10 {
			if len(got.Series) != 1 || got.Series[0].Name != "" || math.Abs(*got.Series[0].Values[0]-*number) > 1e-12*math.Abs(*number) {
				t.Errorf("the number %v is recorded as %+v", *number, got.Series)
			}
		}
	})
}
