package access

import (
	"fmt"
	"os"
	"runtime/pprof"
	"signalbox/broker"
	"sync"
	"sync/atomic"
	"testing"
)

func TestZZ(t *testing.T) {
	for _, size := range sizes {
		c := fresh(t)
		fill(t, c, size)
		f, _ := os.Create(fmt.Sprintf("/tmp/acc/p%d.out", size))
		pprof.StartCPUProfile(f)
		var n atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 1500 {
					i := n.Add(1)
					must(t, c.CreateClient(t.Context(), broker.ClientSpec{Username: fmt.Sprintf("client-%06d-%d", i*7919%int64(size), i), Roles: roleRefs([]string{"r"}), Groups: []broker.GroupRef{{GroupName: "g", Priority: -1}}}))
				}
			})
		}
		wg.Wait()
		pprof.StopCPUProfile()
		f.Close()
	}
}
