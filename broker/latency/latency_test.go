package latency

import (
	"reflect"
	"testing"
	"time"
)

func TestSnapshot(t *testing.T) {
	h := New(.1, 1)
	for _, d := range []time.Duration{0, 100 * time.Millisecond, 101 * time.Millisecond, time.Second, 3 * time.Second} {
		h.Observe(d)
	}
	want := Snapshot{Count: 5, Sum: 4.201, Buckets: map[float64]uint64{.1: 2, 1: 4}}
	if got := h.Snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
