package monitor

import (
	"math"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoad is that of the last sample, while that is recent; a rate needs two.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, path)
		if _, known := s.Load(brokerID); known {
			t.Error("the load is known before the first sample")
		}
		s.pass(20*time.Second, func(n int) (int, int) { return 5, 0 })
		s.pass(20*time.Second, func(n int) (int, int) { return 7, 100 * n })
		synctest.Wait() // the samples are taken at the same moment
		l, known := s.Load(brokerID)
		if !known || l.Connected != 7 || l.MessagesIn != 10 || !math.IsNaN(l.Dropped) && l.Dropped != 0 {
			t.Errorf("got %+v, %v", l, known)
		}
		s.pass(loadAge, func(int) (int, int) { return -1, 0 })
		if l, known := s.Load(brokerID); known {
			t.Errorf("without samples: got %+v", l)
		}
		must(t, s.Forget(t.Context(), brokerID))
		if _, kept := s.loads.Load(brokerID); kept {
			t.Error("the load of a deleted broker is kept")
		}
		must(t, s.Close(t.Context()))
	})
}
