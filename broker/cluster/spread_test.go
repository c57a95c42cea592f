package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestForwardedAtOnce has requests forwarded by a node that hears by itself only
// after a while what was agreed upon.
func TestForwardedAtOnce(t *testing.T) {
	t.Parallel()
	const late, requests = 500 * time.Millisecond, 20
	f := newFleet(t).formWith(func(o *Options) { o.Timing.Commit = late }, 1, 2, 3)
	from := f.follower()
	began := time.Now()
	for i := range requests {
		from.put(t, fmt.Sprint(i), "value")
	}
	if took := time.Since(began); took > requests*late/4 {
		t.Errorf("%d requests took %v, want less than %v", requests, took, requests*late/4)
	} else {
		t.Logf("%d requests took %v", requests, took)
	}
}
