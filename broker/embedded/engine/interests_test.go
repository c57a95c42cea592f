package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// announcedTo is a Routes that counts announcements.
type announcedTo struct {
	mu    sync.Mutex
	asked map[string]map[engine.Interest]int
	known int
}

func newTold() *announcedTo { return &announcedTo{asked: map[string]map[engine.Interest]int{}} }

func (r *announcedTo) Joined(filter string, i engine.Interest) { r.add(filter, i, 1) }
func (r *announcedTo) Left(filter string, i engine.Interest)   { r.add(filter, i, -1) }

func (r *announcedTo) add(filter string, i engine.Interest, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked[filter] == nil {
		r.asked[filter] = map[engine.Interest]int{}
	}
	if r.asked[filter][i] += n; r.asked[filter][i] == 0 {
		delete(r.asked[filter], i)
	}
	if len(r.asked[filter]) == 0 {
		delete(r.asked, filter)
	}
}

func (r *announcedTo) Known(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known++
}

// is compares the announcements with the subscriptions of the engine's clients.
func (r *announcedTo) is(b *broker, taps map[string]map[engine.Interest]int) (diff string) {
	want := newTold()
	for filter, all := range taps {
		for i, n := range all {
			want.add(filter, i, n)
		}
	}
	for s := range b.EachSubscription("") {
		_, _, shared := packet.SplitShared(s.Filter)
		c, _, err := b.Client(s.ClientID)
		check(b.T, err)
		want.add(s.Filter, engine.Interest{QoS: s.QoS, Away: shared && !c.Connected, Temporary: c.Expiry == 0}, 1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Diff(want.asked, r.asked)
}

// TestRoutes announces all subscriptions while clients come and go, and from the middle on to a
// second Routes.
func TestRoutes(t *testing.T) {
	t.Parallel()
	b, first := start(t, t.TempDir()), newTold()
	b.SetRoutes(first)
	filters := []string{"a", "a/+", "$share/g/a", "$share/h/a", "$share/g/#"}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // a test's
			c := b.Connect(keeps(fmt.Sprint(n)))
			for range 100 {
				filter := filters[random.IntN(len(filters))]
				switch random.IntN(5) {
				case 0:
					c.Disconnect()
					c = b.Connect(keeps(fmt.Sprint(n)))
				case 1:
					c.Disconnect()
					c = b.Connect(fresh(fmt.Sprint(n)))
				case 2:
					c.Send(packet.AppendUnsubscribe(nil, c.Version, &packet.Unsubscribe{PacketID: 1, Filters: []string{filter}}))
					c.Want(packet.TypeUnsuback)
				default:
					c.Subscribe(filter, byte(random.IntN(3)))
				}
			}
			if n%2 == 0 {
				c.Disconnect()
			}
		})
	}
	second := newTold()
	end := b.Open("tap/#", newDrain(false))
	b.SetRoutes(second)
	wg.Wait()
	until(t, "the clients are gone", func() bool { return b.present() == 2 })
	tap := map[string]map[engine.Interest]int{"tap/#": {{QoS: 2, Temporary: true}: 1}}
	until(t, "all is told", func() bool { return second.is(b, tap) == "" })
	end()
	end()
	if diff := second.is(b, nil); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Connect(fresh("more")).Subscribe("more", 0)
	b.SetRoutes(nil)
	c := b.Connect(fresh("late"))
	c.Subscribe("late", 0)
	second.mu.Lock()
	defer second.mu.Unlock()
	if second.known == 0 {
		t.Error("SUBACK has waited for nobody")
	}
	if second.asked["late"] != nil {
		t.Error("told after the end")
	}
}

// TestLocalRoutes does not announce filters that concern this node only.
func TestLocalRoutes(t *testing.T) {
	t.Parallel()
	b, r := start(t, t.TempDir()), newTold()
	b.SetRoutes(r)
	c := b.Connect(fresh("c"))
	for _, filter := range []string{"$SYS/#", "$CONTROL/a/response", "$share/g/$SYS/a", "$other/a"} {
		c.Subscribe(filter, 0)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asked) != 1 || r.asked["$other/a"] == nil {
		t.Errorf("told %v", r.asked)
	}
}
