package topics_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"signalbox/broker/mqtt/topics"
)

// filled returns an index of n subscriptions.
func filled(n int, form string) *topics.Index[*int] {
	x := topics.NewIndex[*int]()
	for i := range n {
		x.Subscribe(fmt.Sprintf(form, i), new(int), topics.Options{})
	}
	return x
}

// published returns random topics of a form.
func published(form string, n int) []string {
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = form
		if strings.Contains(form, "%") {
			names[i] = fmt.Sprintf(form, i*7919%n)
		}
	}
	return names
}

func BenchmarkMatch(b *testing.B) {
	const million = 1_000_000
	fanOut := func(filters ...string) *topics.Index[*int] {
		x := topics.NewIndex[*int]()
		for range 200 {
			x.Subscribe("a/b/c", new(int), topics.Options{})
		}
		for _, f := range filters {
			x.Subscribe(f, new(int), topics.Options{})
		}
		return x
	}
	for _, c := range []struct {
		name  string
		index func() *topics.Index[*int]
		topic string // with a number in place of %d
	}{
		{"literal of 1000000", func() *topics.Index[*int] { return filled(million, "site/%d/device/state") }, "site/%d/device/state"},
		{"wildcard of 1000000", func() *topics.Index[*int] { return filled(million, "site/%d/+/state") }, "site/%d/device/state"},
		{"miss among 1000000", func() *topics.Index[*int] { return filled(million, "site/%d/+/state") }, "site/%d/device/other"},
		{"200 subscribers", func() *topics.Index[*int] { return fanOut() }, "a/b/c"},
		{"200 subscribers and two more", func() *topics.Index[*int] { return fanOut("#", "a/+/c") }, "a/b/c"},
		{"two filters", func() *topics.Index[*int] {
			x := filled(1, "a/%d/#")
			x.Subscribe("#", new(int), topics.Options{})
			return x
		}, "a/0/c"},
	} {
		index := sync.OnceValue(c.index)
		b.Run(c.name, func(b *testing.B) {
			x, names := index(), published(c.topic, million)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					x.Match(names[i%len(names)])
				}
			})
		})
	}
}

func BenchmarkSubscribe(b *testing.B) {
	for _, form := range []string{"site/%d/device/state", "site/%d/device/+", "same"} {
		b.Run(form, func(b *testing.B) {
			filters := make([]string, b.N)
			for i := range filters {
				filters[i] = form
				if form != "same" {
					filters[i] = fmt.Sprintf(form, i)
				}
			}
			x := topics.NewIndex[int]()
			b.ReportAllocs()
			b.ResetTimer()
			for i, f := range filters {
				x.Subscribe(f, i, topics.Options{})
			}
			for i, f := range filters {
				x.Unsubscribe(f, i)
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	x := filled(1_000_000, "site/%d/device/state")
	for _, offset := range []int{0, 999_900} {
		b.Run(fmt.Sprintf("100 from %d on", offset), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				x.List(offset, 100, nil)
			}
		})
	}
}

func BenchmarkRetained(b *testing.B) {
	r := topics.NewRetained[*int]()
	for i := range 100_000 {
		r.Set(fmt.Sprintf("site/%d/device/%d", i/100, i%100), new(int))
	}
	for _, filter := range []string{"#", "site/7/#", "site/+/device/50", "+/+/device/50", "site/+/other/+", "site/7/device/7", "other/+"} {
		b.Run("match "+filter, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for range r.Match(filter) {
					n++
				}
			}
			b.ReportMetric(float64(n)/float64(b.N), "topics")
		})
	}
	for _, offset := range []int{0, 99_900} {
		b.Run(fmt.Sprintf("page 100 from %d on", offset), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Page("#", offset, 100)
			}
		})
	}
	b.Run("set", func(b *testing.B) {
		for b.Loop() {
			r.Set("site/500/device/50", nil)
		}
	})
}
