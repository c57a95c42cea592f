package cluster

import (
	"fmt"
	"sync"
	"testing"
)

// BenchmarkPropose proposes at the leader of a cluster of one node and of three,
// which share this process and its disk, from one caller and from several at once.
func BenchmarkPropose(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("nodes=%d/callers=%d", nodes, callers), func(b *testing.B) {
				f := newFleet(b)
				ids := []NodeID{1, 2, 3}[:nodes]
				leader := f.form(ids...).leader().node
				next := make(chan int)
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						for i := range next {
							if _, _, err := leader.Propose(b.Context(), write{fmt.Sprint(i % 100), "value"}.encode()); err != nil {
								b.Error(err)
							}
						}
					})
				}
				b.ResetTimer()
				for i := range b.N {
					next <- i
				}
				close(next)
				wg.Wait()
				b.StopTimer()
			})
		}
	}
}
