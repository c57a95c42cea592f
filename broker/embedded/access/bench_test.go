package access

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// The numbers of clients between which the cost of one change must not differ.
var sizes = []int{1_000, 100_000}

// cpu reports the processor time of one operation, which is independent of the machine's
// load. The returned function is called at the end.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkCreateClient creates clients without password, durably, with 16
// callers at a time.
func BenchmarkCreateClient(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := fresh(b)
			fill(b, c, size)
			var n atomic.Int64
			b.SetParallelism(8)
			defer cpu(b)()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					spec := broker.ClientSpec{
						Username: fmt.Sprintf("client-%06d-new", n.Add(1)*7919%int64(size)) + fmt.Sprint(n.Load()),
						Roles:    roleRefs([]string{"r"}),
						Groups:   []broker.GroupRef{{GroupName: "g", Priority: broker.NoPriority}},
					}
					if err := c.CreateClient(b.Context(), spec); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkOneCreateClient creates clients one after the other: the latency of a single
// caller.
func BenchmarkOneCreateClient(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := fresh(b)
			fill(b, c, size)
			n := 0
			defer cpu(b)()
			for b.Loop() {
				n++
				must(b, c.CreateClient(b.Context(), broker.ClientSpec{
					Username: fmt.Sprintf("client-%06d-%d", n*7919%size, n), Roles: roleRefs([]string{"r"})}))
			}
		})
	}
}

// BenchmarkOpen opens files with clients that have a role and a group each.
func BenchmarkOpen(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "broker.db")
			c := open(b, path)
			fill(b, c, size)
			shut(b, c)
			for b.Loop() {
				shut(b, open(b, path))
			}
		})
	}
}

// BenchmarkImport imports clients that have a role and a group each.
func BenchmarkImport(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := fresh(b)
			fill(b, c, size)
			document, err := c.ExportAccess(b.Context())
			must(b, err)
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				_, err := fresh(b).ImportAccess(b.Context(), bytes.NewReader(document), false)
				must(b, err)
			}
		})
	}
}

// BenchmarkAuthenticate logs in with a password at the default cost: for the first time and
// from the cache.
func BenchmarkAuthenticate(b *testing.B) {
	c := fresh(b)
	c.iterations = DefaultPasswordIterations
	fill(b, c, 1_000)
	must(b, c.CreateClient(b.Context(), client("u")))
	log := func(b *testing.B) {
		a, err := c.Authenticate(b.Context(), login("u", "secret"))
		must(b, err)
		a.Release()
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			clear(c.credentials.known)
			log(b)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		for b.Loop() {
			log(b)
		}
	})
}

// BenchmarkAllowed checks a publish of a client with 10 roles of 100 ACLs each, the last of
// which decides.
func BenchmarkAllowed(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := fresh(b)
			fill(b, c, size)
			var roles []string
			for r := range 10 {
				var topics []string
				for a := range 100 {
					topics = append(topics, fmt.Sprintf("site/%d/%d", r, a))
				}
				roles = append(roles, fmt.Sprint("role", r))
				must(b, c.CreateRole(b.Context(), role(roles[r], topics...)))
			}
			must(b, c.CreateClient(b.Context(), client("u", roles...)))
			a := authenticated(b, c, "u")
			b.ReportAllocs()
			for b.Loop() {
				if !a.Allowed(dynsec.PublishSend, "id", "site/9/99") {
					b.Fatal("denied")
				}
			}
		})
	}
}

// BenchmarkThroughLog creates clients through a log of one node without costs of its own,
// with 16 callers at a time: the cost of sharing.
func BenchmarkThroughLog(b *testing.B) {
	_, nodes := sharedNodes(b, 1)
	fill(b, nodes[0], sizes[0])
	var n atomic.Int64
	b.SetParallelism(8)
	defer cpu(b)()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			spec := broker.ClientSpec{Username: fmt.Sprint("new-", n.Add(1)), Roles: roleRefs([]string{"r"})}
			if err := nodes[0].CreateClient(b.Context(), spec); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkSnapshot writes a snapshot, and replaces the state by one.
func BenchmarkSnapshot(b *testing.B) {
	for _, size := range sizes {
		c := fresh(b)
		fill(b, c, size)
		snapshot := bytesOf(b, c)
		b.Run(fmt.Sprint("write/", size), func(b *testing.B) {
			b.SetBytes(int64(len(snapshot)))
			for b.Loop() {
				bytesOf(b, c)
			}
		})
		b.Run(fmt.Sprint("restore/", size), func(b *testing.B) {
			b.SetBytes(int64(len(snapshot)))
			for b.Loop() {
				restore(b, c, 1, snapshot)
			}
		})
	}
}

// BenchmarkModifyGroup replaces the members of a group, all of whom join or leave.
func BenchmarkModifyGroup(b *testing.B) {
	const members = 20_000
	c := fresh(b)
	fill(b, c, members)
	must(b, c.CreateGroup(b.Context(), broker.GroupSpec{GroupName: "large"}))
	all := []broker.MemberRef{}
	for i := range members {
		all = append(all, broker.MemberRef{Username: fmt.Sprintf("client-%06d", i), Priority: broker.NoPriority})
	}
	defer cpu(b)()
	for n := 0; b.Loop(); n++ {
		spec := broker.GroupSpec{GroupName: "large", Clients: all}
		if n%2 == 1 {
			spec.Clients = []broker.MemberRef{}
		}
		must(b, c.ModifyGroup(b.Context(), spec))
	}
}
