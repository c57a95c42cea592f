package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
)

// direct makes nodes connect over the loopback directly.
func (f *fleet) direct(o *Options) {
	o.dial = func(ctx context.Context, hostPort string) (net.Conn, error) {
		var to NodeID
		if _, err := fmt.Sscanf(hostPort, "node%d.test:7000", &to); err != nil {
			return nil, err
		}
		n := f.network.at(to)
		if n == nil {
			return nil, net.ErrClosed
		}
		addr, err := n.Addr(ctx)
		if err != nil || addr == "" {
			return nil, net.ErrClosed
		}
		return dialer("", nil)(ctx, addr)
	}
}

// BenchmarkPropose proposes at the leader of a cluster of one node and of three, which share this
// process and its disk, from one caller and from several.
func BenchmarkPropose(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("nodes=%d/callers=%d", nodes, callers), func(b *testing.B) {
				f := newFleet(b)
				leader := f.formWith(f.direct, []NodeID{1, 2, 3}[:nodes]...).leader().node
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

// BenchmarkBegin proposes many commands concurrently to a machine that costs nothing.
func BenchmarkBegin(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, size := range []int{100, 16 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("nodes=%d/bytes=%d", nodes, size), func(b *testing.B) {
				f := newFleet(b)
				f.formWith(func(o *Options) {
					f.direct(o)
					o.Timing = Timing{}
					o.Machine = new(sponge)
				}, []NodeID{1, 2, 3}[:nodes]...)
				leader := f.leader().node
				leadership, err := leader.Lead(b.Context())
				must(b, err)
				command := make([]byte, size)
				waits := make(chan func(context.Context) (any, error), maxPendingProposals)
				var wg sync.WaitGroup
				wg.Go(func() {
					for wait := range waits {
						if _, err := wait(b.Context()); err != nil {
							b.Error(err)
						}
					}
				})
				b.SetBytes(int64(size))
				b.ResetTimer()
				for range b.N {
					waits <- leadership.Begin(command)
				}
				close(waits)
				wg.Wait()
				b.StopTimer()
			})
		}
	}
}
