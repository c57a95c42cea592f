package topictree_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/topictree"
)

// source is a Subscriber for tests.
type source struct {
	fail error
	held chan struct{} // if not nil, Subscribe waits for it, or for its context

	mu    sync.Mutex // guards feeds
	feeds []*feed
}

type feed struct {
	filter  string
	deliver func(string, []byte, byte, bool)
	lost    chan struct{}
	once    sync.Once
	stopped atomic.Bool
}

func (s *source) Subscribe(ctx context.Context, filter string, deliver func(string, []byte, byte, bool)) (broker.Feed, error) {
	if s.held != nil {
		select {
		case <-s.held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	f := &feed{filter: filter, deliver: deliver, lost: make(chan struct{})}
	s.feeds = append(s.feeds, f)
	return f, nil
}

func (f *feed) Lost() <-chan struct{} { return f.lost }
func (f *feed) Stop()                 { f.stopped.Store(true); f.end() }
func (f *feed) end()                  { f.once.Do(func() { close(f.lost) }) }

// advance advances the time of the bubble.
func advance(d time.Duration) { <-time.After(d) }

// follow runs a test with a follower in a synctest bubble.
func follow(t *testing.T, s *source, test func(t *testing.T, f *topictree.Follower)) {
	synctest.Test(t, func(t *testing.T) {
		f := topictree.NewFollower(s, topictree.Options{})
		defer f.Close()
		test(t, f)
	})
}

// wantFollowed requests the topics and compares their number.
func wantFollowed(t *testing.T, f *topictree.Follower, want int) {
	t.Helper()
	tree, err := f.Page(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.PublishTopics.Count; got != want || tree.SubscribeTopics.Topics == nil {
		t.Errorf("%d topics, want %d", got, want)
	}
}

func TestFollowsWhileWatched(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		if advance(time.Hour); len(s.feeds) != 0 {
			t.Error("subscribed before anybody asked")
		}
		wantFollowed(t, f, 0)
		for range 20_000 { // more than the idle budget
			s.feeds[0].deliver("a", []byte("x"), 0, false)
		}
		wantFollowed(t, f, 1)
		advance(9 * time.Minute)
		wantFollowed(t, f, 0)
		s.feeds[0].deliver("b", nil, 0, false)
		advance(9*time.Minute + 55*time.Second)
		s.feeds[0].deliver("c", nil, 0, false)
		if s.feeds[0].stopped.Load() || len(s.feeds) != 1 || s.feeds[0].filter != "#" {
			t.Errorf("%d subscriptions, the first stopped: %v", len(s.feeds), s.feeds[0].stopped.Load())
		}
		advance(20 * time.Second)
		synctest.Wait()
		if !s.feeds[0].stopped.Load() {
			t.Error("still subscribed, though nobody asks")
		}
		wantFollowed(t, f, 0) // "c" has not expired, but may have had messages since
		if len(s.feeds) != 2 {
			t.Errorf("%d subscriptions, want a second one", len(s.feeds))
		}
	})
}

func TestSubscribesAgainAfterALoss(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		wantFollowed(t, f, 0)
		s.feeds[0].deliver("a", nil, 0, false)
		s.feeds[0].end()
		synctest.Wait()
		wantFollowed(t, f, 0)
		if len(s.feeds) != 2 {
			t.Fatalf("%d subscriptions, want 2", len(s.feeds))
		}
		s.feeds[1].deliver("b", nil, 0, false)
		wantFollowed(t, f, 1)
	})
}

func TestWithoutTTLNothingIsFollowed(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		wantFollowed(t, f, 0)
		f.SetTTL(0)
		advance(time.Minute)
		wantFollowed(t, f, 0)
		if len(s.feeds) != 1 || !s.feeds[0].stopped.Load() || f.TTL() != 0 {
			t.Errorf("%d subscriptions, TTL %v", len(s.feeds), f.TTL())
		}
	})
}

func TestSubscribingFails(t *testing.T) {
	t.Parallel()
	s := &source{fail: errors.New("no")}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		if _, err := f.Page(t.Context(), 0, -1); !errors.Is(err, s.fail) {
			t.Errorf("error %v", err)
		}
		s.fail = nil
		wantFollowed(t, f, 0)
	})
}

// TestPageHonoursItsContext has two requests that wait for a subscription which
// is never made.
func TestPageHonoursItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{held: make(chan struct{})}
		f := topictree.NewFollower(s, topictree.Options{})
		results := make(chan error, 3)
		ask := func(ctx context.Context) {
			_, err := f.Page(ctx, 0, -1)
			results <- err
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go ask(short)
		go ask(short)
		for range 2 {
			if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		}
		go ask(t.Context())
		synctest.Wait()
		f.Close()
		if err := <-results; err == nil {
			t.Error("subscribed while being closed")
		}
		if _, err := f.Page(t.Context(), 0, -1); !errors.Is(err, topictree.ErrClosed) {
			t.Errorf("error %v", err)
		}
	})
}

func TestCloseStops(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		wantFollowed(t, f, 0)
		f.Close()
		if !s.feeds[0].stopped.Load() {
			t.Error("still subscribed")
		}
	})
}

// TestNamesAreNoRequest reads names before, while and after a tree is followed.
func TestNamesAreNoRequest(t *testing.T) {
	t.Parallel()
	s := &source{}
	follow(t, s, func(t *testing.T, f *topictree.Follower) {
		wantNames(t, f)
		if len(s.feeds) != 0 {
			t.Fatal("reading names subscribed")
		}
		wantFollowed(t, f, 0)
		s.feeds[0].deliver("b", nil, 0, false)
		s.feeds[0].deliver("a", nil, 0, false)
		wantNames(t, f, "a", "b")
		for range 20 { // minutes, of which ten TTLs keep the tree watched
			advance(time.Minute)
			wantNames(t, f, slices.Sorted(f.Names())...)
		}
		if wantNames(t, f); !s.feeds[0].stopped.Load() {
			t.Error("reading names kept the tree watched")
		}
	})
}

func wantNames(t *testing.T, f *topictree.Follower, want ...string) {
	t.Helper()
	if got := slices.Collect(f.Names()); !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}
