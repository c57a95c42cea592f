package dynsec

import (
	"fmt"
	"runtime"
	"testing"

	"signalbox/broker"
)

// BenchmarkCreateClient makes one version per client, as a single caller does, of
// states of two sizes. The cost must not depend on the size.
func BenchmarkCreateClient(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := fleet(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				tx := s.Begin()
				c := CreateClient(broker.ClientSpec{
					Username: fmt.Sprintf("c%06dx", i*7919%n),
					Roles:    []broker.RoleRef{{RoleName: "device", Priority: broker.NoPriority}},
					Groups:   []broker.GroupRef{{GroupName: "fleet", Priority: broker.NoPriority}},
				})
				if a := tx.Do(c, nil); a.Error != "" {
					b.Fatal(a.Error)
				}
				tx.End()
			}
		})
	}
}

// BenchmarkRequest runs a whole request, from its bytes to those of the response.
func BenchmarkRequest(b *testing.B) {
	s := fleet(b, 100_000)
	payload := []byte(`{"commands":[{"command":"createClient","username":"new","roles":[{"rolename":"device"}],"groups":[{"groupname":"fleet"}],"correlationData":"5f3c"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		run(s, payload, nil)
	}
}

// BenchmarkListClients returns a page of 100 of 100,000. The cost must not depend on
// the offset.
func BenchmarkListClients(b *testing.B) {
	s := fleet(b, 100_000)
	for _, offset := range []int{0, 50_000, 99_900} {
		b.Run(fmt.Sprint(offset), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for range part(b, s.ListClients, broker.ListOptions[broker.Client]{Offset: offset, Count: 100}).Items {
					n++
				}
				if n != 100 {
					b.Fatal(n)
				}
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		s := fleet(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(s.records()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMemoryOf100000Clients bounds the size of the state: the embedded broker has all
// clients in memory and is to stay below 60 MiB idle. It is not parallel, because other
// tests would be measured with it.
func TestMemoryOf100000Clients(t *testing.T) {
	before := heap()
	s := fleet(t, 100_000)
	used := heap() - before
	runtime.KeepAlive(s)
	const limit = 32 << 20
	t.Logf("%.1f MiB", float64(used)/(1<<20))
	if used > limit {
		t.Errorf("100,000 clients take %d bytes, want at most %d", used, limit)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
