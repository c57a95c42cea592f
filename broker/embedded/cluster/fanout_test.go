package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestForwardedAtOnce forwards requests from a node that would get the commit index only after a
// long time, if the leader did not append an entry at once.
func TestForwardedAtOnce(t *testing.T) {
	t.Parallel()
	const late, requests = 20 * time.Second, 20
	f := newFleet(t).formWith(func(o *Options) { o.Timing.Commit = late }, 1, 2, 3)
	from := f.follower()
	began := time.Now()
	for i := range requests {
		from.put(t, fmt.Sprint(i), "value")
	}
	if took, most := time.Since(began), requests*late/4; took > most {
		t.Errorf("%d requests took %v, want less than %v", requests, took, most)
	}
}
