package topics

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestNoLeaks removes all subscriptions in random order and checks that the index is empty.
func TestNoLeaks(t *testing.T) {
	t.Parallel()
	x := NewIndex[int]()
	forms := []string{"a/%d/b", "a/%d/+", "+/%d/#", "%d/+/%d", "$share/g/a/%d", "$share/%d/a/+/b", "a/+/b", "#", "$share/g/#"}
	type subscription struct {
		filter string
		who    int
	}
	var all []subscription
	for i := range 5000 {
		filter := forms[i%len(forms)]
		if n := i / len(forms); filter == "%d/+/%d" {
			filter = fmt.Sprintf(filter, n, n)
		} else if filter != "a/+/b" && filter != "#" && filter != "$share/g/#" {
			filter = fmt.Sprintf(filter, n)
		}
		all = append(all, subscription{filter, i})
		x.Subscribe(filter, i, Options{})
	}
	if x.Len() != len(all) {
		t.Fatalf("got %d subscriptions, want %d", x.Len(), len(all))
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all {
		if !x.Unsubscribe(s.filter, s.who) {
			t.Fatalf("%d was not subscribed to %q", s.who, s.filter)
		}
	}
	for name, left := range map[string]int{
		"filters": len(x.literal.m), "edges": len(x.wildcards.edges.m), "edges of the root": x.wildcards.root.literals,
		"shares": len(x.shares.m), "subscriptions": x.Len(), "shared subscriptions": x.SharedLen(),
	} {
		if left != 0 {
			t.Errorf("%d %s are left", left, name)
		}
	}
	if top := &x.wildcards.root; top.plus != nil || top.exact != nil || top.multi != nil {
		t.Errorf("the root is not empty: %+v", top)
	}
}

// TestMemory checks the memory per subscription, and that it is released. It is not parallel,
// because it measures the heap.
func TestMemory(t *testing.T) {
	const n, spare = 100_000, 1 << 20
	filters := make([]string, n)
	for form, allowed := range map[string]uint64{"site/%d/device/state": 340, "site/%d/device/+": 560} {
		for i := range filters {
			filters[i] = fmt.Sprintf(form, i)
		}
		x := NewIndex[int]()
		empty := heap()
		for i, f := range filters {
			x.Subscribe(f, i, Options{QoS: 1})
			x.Match(f) // so that results are cached
		}
		each := (heap() - empty) / n
		t.Logf("%s: %d bytes for a subscription", form, each)
		if each > allowed {
			t.Errorf("%s: %d bytes for a subscription, want %d at most", form, each, allowed)
		}
		for i, f := range filters {
			x.Unsubscribe(f, i)
		}
		if left := int64(heap()) - int64(empty); left > spare {
			t.Errorf("%s: %d bytes are left of %d subscriptions", form, left, x.Len())
		}
		runtime.KeepAlive(x)
	}
	runtime.KeepAlive(filters)
}

// TestRetainedMemory does the same for retained messages.
func TestRetainedMemory(t *testing.T) {
	const n, spare, allowed = 100_000, 1 << 20, 80
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("site/%d/device/state", i)
	}
	r, m := NewRetained[*int](), new(int)
	empty := heap()
	for _, topic := range names {
		r.Set(topic, m)
	}
	each := (heap() - empty) / n
	t.Logf("%d bytes for a retained topic", each)
	if each > allowed {
		t.Errorf("%d bytes for a retained topic, want %d at most", each, allowed)
	}
	for _, topic := range names {
		r.Delete(topic)
	}
	if left := int64(heap()) - int64(empty); left > spare {
		t.Errorf("%d bytes are left of %d messages", left, r.Len())
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(names)
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
