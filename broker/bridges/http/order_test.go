package http_test

import (
	"context"
	"fmt"
	nethttp "net/http"
	"sync"
	"testing"
	"time"

	"signalbox/broker/bridges"
)

// gauge counts the requests of each topic in flight.
type gauge struct {
	mu       sync.Mutex
	underWay map[string]int
	most     int
	total    int
	all      chan struct{} // closed when the maximum is in flight
}

func (g *gauge) enter(topic string, most int) (alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay[topic]++
	g.total++
	if g.most = max(g.most, g.total); g.total == most && g.all != nil {
		close(g.all)
		g.all = nil
	}
	return g.underWay[topic] == 1
}

func (g *gauge) leave(topic string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay[topic]--
	g.total--
}

func TestOrderOfEachTopic(t *testing.T) {
	t.Parallel()
	const topics, each, parallel = 10, 20, 4
	all := make(chan struct{})
	g := &gauge{underWay: map[string]int{}, all: all}
	s := serve(t, func(_ nethttp.ResponseWriter, r received) {
		topic := r.header.Get("X-Signalbox-Topic")
		if !g.enter(topic, parallel) {
			t.Errorf("two requests of %s at the same time", topic)
		}
		defer g.leave(topic)
		<-all
	})
	c := connected(t, s.URL, "", fmt.Sprintf(`"concurrency":%d`, parallel), `"body":"${message_id}","contentType":"text/plain"`)
	var batch []*bridges.Entry
	for i := range topics * each {
		batch = append(batch, entry(uint64(i), fmt.Sprintf("t/%d", i%topics), ""))
	}
	delivered(t, c, batch)
	last := map[string]int{}
	for _, r := range s.requests() {
		var n int
		if _, err := fmt.Sscanf(r.body, "store-%d", &n); err != nil {
			t.Fatal(err)
		}
		topic := r.header.Get("X-Signalbox-Topic")
		if before, ok := last[topic]; ok && n != before+topics {
			t.Errorf("%s: got %d after %d", topic, n, before)
		}
		last[topic] = n
	}
	if g.most != parallel {
		t.Errorf("got %d requests at the same time, want %d", g.most, parallel)
	}
}

func TestAFailureHoldsItsTopicOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w nethttp.ResponseWriter, r received) {
		if r.body == "fails" {
			w.WriteHeader(nethttp.StatusInternalServerError)
		}
	})
	c := connected(t, s.URL, "", "", `"body":"${payload}","contentType":"text/plain"`)
	results, err := deliver(t, c, []*bridges.Entry{entry(1, "a", "1"), entry(2, "a", "fails"), entry(3, "b", "1"), entry(4, "a", "2"), entry(5, "b", "2")})
	if err == nil || isLost(err) {
		t.Errorf("got %v, want the answer", err)
	}
	for i, want := range []bridges.State{bridges.Delivered, bridges.Pending, bridges.Delivered, bridges.Pending, bridges.Delivered} {
		if results[i].State != want {
			t.Errorf("entry %d: got %v, want %v", i, results[i], want)
		}
	}
	if results[1].Reason == "" || results[3].Reason != "" {
		t.Errorf("got %v, want a reason where it was tried only", results)
	}
}

func TestAServerThatFailsIsNotAskedForEach(t *testing.T) {
	t.Parallel()
	s := serve(t, status(500, ""))
	c := connected(t, s.URL, "", "", "")
	var batch []*bridges.Entry
	for i := range 100 {
		batch = append(batch, entry(uint64(i), fmt.Sprint("t/", i), ""))
	}
	if _, err := deliver(t, c, batch); err == nil {
		t.Error("got no error")
	}
	if got := len(s.requests()); got != 3 {
		t.Errorf("got %d requests, want 3", got)
	}
}

// TestASlowServerIsNotCutOff checks that a delivery ends between two requests, and that messages
// that were not tried have no reason.
func TestASlowServerIsNotCutOff(t *testing.T) {
	t.Parallel()
	s := serve(t, func(nethttp.ResponseWriter, received) { <-time.After(50 * time.Millisecond) })
	c := connected(t, s.URL, "", "", "")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	batch := entries(make([]string, 500)...)
	results := make([]bridges.Result, len(batch))
	if err := c.Deliver(ctx, batch, results); err != nil || ctx.Err() != nil {
		t.Fatalf("got %v, %v, want it to end in time", err, ctx.Err())
	}
	sent := len(s.requests())
	for i, r := range results {
		want := bridges.Result{}
		if i < sent {
			want.State = bridges.Delivered
		}
		if r != want {
			t.Fatalf("entry %d of %d that were sent: got %v, want %v", i, sent, r, want)
		}
	}
	if sent == 0 || sent == len(batch) {
		t.Errorf("got %d requests, want some", sent)
	}
}
