package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

// machine is the state machine of a node, which applies to its store.
type machine struct{ *member }

func (m machine) Applied() uint64 { return m.disk.AppliedIndex() }

func (m machine) Apply(index uint64, command []byte) any {
	return m.ApplyBatch([]cluster.Command{{Index: index, Data: command}})[0]
}

// ApplyBatch applies all in one transaction.
func (m machine) ApplyBatch(commands []cluster.Command) []any {
	data := make([][]byte, len(commands))
	for i, c := range commands {
		data[i] = c.Data
	}
	answers := make([]any, len(commands))
	if err := m.member.Apply(commands[len(commands)-1].Index, data...); err != nil {
		for i := range answers {
			answers[i] = cluster.ApplyError{Err: err}
		}
	}
	return answers
}

func (m machine) Snapshot(ctx context.Context) (cluster.Snapshot, error) {
	return m.disk.Snapshot(ctx, store.Everything)
}

func (m machine) Restore(ctx context.Context, index uint64, r io.Reader) error {
	_, err := m.disk.Restore(ctx, index, store.Everything, r, nil)
	return err
}

// proposer returns the Proposer of a leadership in a real cluster.
func proposer(l cluster.Leadership) Proposer {
	return func(command []byte) func(context.Context) error {
		wait := l.Begin(command)
		return func(ctx context.Context) error {
			_, err := wait(ctx)
			return err
		}
	}
}

// fleet is a cluster of nodes that share this process and its disk.
type fleet struct {
	members []*member
	nodes   []*cluster.Node
}

func newFleet(t testing.TB, size int) *fleet {
	t.Helper()
	f := &fleet{}
	spec := cluster.Spec{Name: "c", SyncMode: "full", Self: 1}
	for i := range size {
		address, err := net.ResolveTCPAddr("tcp", brokertest.FreePort(t, "127.0.0.1"))
		must(t, err)
		m := newMember(t)
		must(t, m.Follow(t.Context()), m.disk.SetDurability(t.Context(), storage.Process))
		node, err := cluster.Open(t.Context(), cluster.Options{Dir: t.TempDir(), Listen: address.String(), Version: "test", Machine: machine{m}})
		must(t, err)
		t.Cleanup(func() { must(t, node.Close(context.Background())) })
		f.members, f.nodes = append(f.members, m), append(f.nodes, node)
		spec.Members = append(spec.Members, cluster.Member{NodeID: cluster.NodeID(i + 1), Address: address.IP.String(), Port: address.Port})
	}
	invitations, err := f.nodes[0].Create(t.Context(), spec)
	must(t, err)
	var joining sync.WaitGroup
	for _, inv := range invitations {
		joining.Go(func() {
			own := spec
			own.Self = inv.NodeID
			if err := f.nodes[inv.NodeID-1].Join(t.Context(), own, inv); err != nil {
				t.Error(err)
			}
		})
	}
	joining.Wait()
	f.await(t, func() bool { return f.nodes[0].Figures().InContact == size })
	return f
}

// await waits for a condition.
func (f *fleet) await(t testing.TB, holds func() bool) {
	t.Helper()
	suite.WaitFor(t, "a condition of the nodes holds", holds)
}

// lead makes the elected node lead.
func (f *fleet) lead(t testing.TB) (leader int, lost <-chan struct{}) {
	t.Helper()
	f.await(t, func() bool {
		for i, node := range f.nodes {
			l, err := node.Lead(t.Context())
			if err == nil {
				leader, lost = i, lead(t, f.members[i].Store, proposer(l))
				return true
			}
		}
		return false
	})
	return leader, lost
}

// TestCluster replicates what the leader of three nodes submits, and stops the leader
// under load.
func TestCluster(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	first, lost := f.begin(t, 1)
	kept := map[string]bool{}
	f.publish(t, first, lost, 200, kept)
	var closing sync.WaitGroup
	closing.Go(func() { must(t, f.nodes[first].Close(context.Background())) })
	f.publish(t, first, lost, math.MaxInt, kept)
	closing.Wait()
	must(t, f.members[first].Follow(t.Context()))
	second, lost := f.lead(t)
	if second == first {
		t.Fatal("the node that was closed leads")
	}
	f.publish(t, second, lost, 200, kept)
	other := f.members[3-first-second]
	f.await(t, func() bool {
		want, _ := f.members[second].load(t)
		got, _ := other.load(t)
		return cmp.Equal(want, got)
	})
	stored, _ := other.load(t)
	t.Logf("%d messages are settled, %d are stored", len(kept), len(stored))
	for _, q := range stored {
		delete(kept, q.Payload)
	}
	if len(kept) > 0 {
		t.Errorf("%d messages are lost", len(kept))
	}
}

// begin makes a node lead, and creates sessions with the IDs from 1.
func (f *fleet) begin(t testing.TB, sessions int) (leader int, lost <-chan struct{}) {
	t.Helper()
	begin := &engine.Changes{}
	for id := range uint64(sessions) {
		begin.PutSessions = append(begin.PutSessions, engine.SessionRecord{ID: id + 1, ClientID: fmt.Sprint(id)})
	}
	f.await(t, func() bool { // again if another node is elected meanwhile
		leader, lost = f.lead(t)
		return <-submit(f.members[leader].Store, begin) == nil
	})
	return leader, lost
}

// publish publishes one message after the other to session 1, until the leadership is
// lost, and records which were committed.
func (f *fleet) publish(t *testing.T, leader int, lost <-chan struct{}, n int, kept map[string]bool) {
	t.Helper()
	_, id := f.members[leader].load(t)
	for range n {
		select {
		case <-lost:
			return
		default:
			id++
		}
		c := enqueue(1, fmt.Sprint(leader, "-", id), id)
		err := <-submit(f.members[leader].Store, c)
		switch {
		case err == nil:
			kept[string(c.Messages[0].Payload)] = true
		case !errors.Is(err, engine.ErrUncertain):
			t.Errorf("settled with %v", err)
		}
	}
}

// enqueue returns changes that enqueue a new message for a session.
func enqueue(session uint64, payload string, id uint64) *engine.Changes {
	m := &engine.Message{
		ID: id, Topic: "bench/topic/level", Payload: []byte(payload), QoS: 1, CreatedAt: 1_700_000_000_000, Publisher: "publisher-12",
		Username: "user",
	}
	return &engine.Changes{
		Messages: []*engine.Message{m},
		Enqueued: []engine.QueueRecord{{SessionID: session, Seq: id, Message: m, QoS: 1}},
	}
}

// BenchmarkCluster has publishers that wait for each message to be committed, and
// consumers that acknowledge it a little later, as the store's benchmark does for a node
// alone.
func BenchmarkCluster(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, publishers := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("nodes=%d/publishers=%d", nodes, publishers), func(b *testing.B) {
				f := newFleet(b, nodes)
				leader, _ := f.begin(b, publishers)
				s := f.members[leader].Store
				var next atomic.Uint64
				defer cpu(b)()
				b.ResetTimer()
				var group sync.WaitGroup
				for p := range uint64(publishers) {
					group.Go(func() { publishAll(b, s, p+1, &next) })
				}
				group.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			})
		}
	}
}

func publishAll(b *testing.B, s *Store, session uint64, next *atomic.Uint64) {
	payload := string(make([]byte, 64))
	var waiting []engine.QueueRecord
	for id := next.Add(1); id <= uint64(b.N); id = next.Add(1) {
		c := enqueue(session, payload, id)
		if err := <-submit(s, c); err != nil {
			b.Error(err)
			return
		}
		if waiting = append(waiting, c.Enqueued...); len(waiting) > 4 {
			s.Submit(&engine.Changes{Owed: true, Dequeued: waiting[:1:1]})
			waiting = waiting[1:]
		}
	}
	s.Submit(&engine.Changes{Owed: true, Dequeued: waiting})
}

// cpu reports the processor time of one operation, all nodes together. The
// returned function is called at the end.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
