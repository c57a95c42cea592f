package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(killedReceiver); address != "" {
		serveUntilKilled(address)
		return
	}
	if dir := os.Getenv(killedPrimary); dir != "" {
		submitUntilKilled(dir)
		return
	}
	suite.Main(m)
}

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// network is the nodes 2, 3 … to which node 1 sends.
type network struct {
	mu        sync.Mutex
	receivers map[int]*Receiver
	fault     func(to int, request []byte) (before, after error) // nil for none
}

func (n *network) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	n.mu.Lock()
	receiver, fault := n.receivers[to], n.fault
	n.mu.Unlock()
	var before, after error
	if fault != nil {
		before, after = fault(to, request)
	}
	if receiver == nil {
		before = fmt.Errorf("nothing listens: %w", syscall.ECONNREFUSED)
	}
	if before != nil {
		return nil, before
	}
	b, err := receiver.Serve(ctx, 1, slices.Clone(request))
	return b, errors.Join(err, after)
}

// set sets the receiver of a node; nil for none.
func (n *network) set(node int, r *Receiver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.receivers[node] = r
}

// inject has requests fail from now on; nil for none.
func (n *network) inject(fault func(to int, request []byte) (before, after error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = fault
}

// primary is node 1: a Replicator on a file.
type primary struct {
	*Replicator
	local    *store.Store
	file     *storage.File
	sequence sequence
}

// openPrimary opens node 1 on the file in a folder.
func openPrimary(ctx context.Context, dir string, o Options) (*primary, error) {
	p := &primary{}
	var err error
	if p.file, err = schema.Open(ctx, filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	if p.local, err = store.Open(ctx, p.file, store.Options{Durability: storage.Process}); err != nil {
		return nil, err
	}
	o.Local = p.local
	p.Replicator = New(o)
	_, err = p.Load(ctx)
	return p, err
}

func (p *primary) shut(t testing.TB) {
	t.Helper()
	must(t, p.Close(context.Background()), p.file.Close())
}

// rig is node 1 and others.
type rig struct {
	*primary
	t    testing.TB
	net  *network
	dirs map[int]string
}

// newRig starts node 1 and others with consecutive numbers, which do not have replicas before SetPeers. One that is
// slow, as the machine may be, is not given up, unless change is productTimes.
func newRig(t testing.TB, others int, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, net: &network{receivers: map[int]*Receiver{}}, dirs: map[int]string{}}
	for n := 2; n < 2+others; n++ {
		r.dirs[n] = t.TempDir()
		r.startReceiver(n)
	}
	o := Options{Net: r.net, Timeout: suite.HangLimit, RefusedTimeout: suite.HangLimit}
	for _, f := range change {
		f(&o)
	}
	var err error
	r.primary, err = openPrimary(context.Background(), t.TempDir(), o)
	must(t, err)
	r.sequence.rand = suite.Rand(t)
	t.Cleanup(func() {
		r.shut(t)
		for n := range r.dirs {
			r.stopReceiver(n)
		}
	})
	return r
}

// productTimes sets the times that the product has, for tests in virtual time.
func productTimes(o *Options) { o.Timeout, o.RefusedTimeout = 0, 0 }

func (r *rig) startReceiver(node int, change ...func(*ReceiverOptions)) {
	r.t.Helper()
	o := ReceiverOptions{Dir: r.dirs[node]}
	for _, f := range change {
		f(&o)
	}
	receiver, err := OpenReceiver(context.Background(), o)
	must(r.t, err)
	r.net.set(node, receiver)
}

func (r *rig) stopReceiver(node int) {
	r.t.Helper()
	receiver := r.receiver(node)
	r.net.set(node, nil)
	if receiver != nil {
		must(r.t, receiver.Close(context.Background()))
	}
}

func (r *rig) receiver(node int) *Receiver {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	return r.net.receivers[node]
}

// nodes returns the other nodes.
func (r *rig) nodes() []int { return slices.Sorted(maps.Keys(r.dirs)) }

// awaitComplete waits until all other nodes have complete replicas.
func (r *rig) awaitComplete() {
	r.t.Helper()
	suite.WaitFor(r.t, "the replicas are complete", func() bool {
		return !slices.ContainsFunc(r.Figures(), func(f Figures) bool { return !f.Complete })
	})
}

// receipt is a CommitNotifier that passes on the outcome.
type receipt chan error

func (r receipt) Committed(_ *engine.Changes, err error) { r <- err }

// submit submits changes and returns a channel with their outcome.
func (p *primary) submit(c *engine.Changes) receipt {
	r := make(receipt, 1)
	c.Done = r
	p.Submit(c)
	return r
}

// session is a session with its messages, for comparisons.
type session struct {
	engine.SessionRecord
	Subscriptions []engine.SubscriptionRecord
	Queue         []engine.QueueRecord
	Incoming      []uint16
}

// source is where sessions are read.
type source struct {
	load     func(context.Context) (*engine.Snapshot, error)
	messages func(ctx context.Context, ids []uint64) ([]*engine.Message, error)
}

// read returns all sessions by client id.
func (s source) read(t testing.TB) map[string]session {
	t.Helper()
	snapshot, err := s.load(context.Background())
	must(t, err)
	found := map[string]session{}
	for _, stored := range snapshot.Sessions {
		for i := range stored.Queue {
			q := &stored.Queue[i]
			m, err := s.messages(context.Background(), []uint64{q.Stub.ID})
			must(t, err)
			if len(m) == 1 {
				q.Message, q.Stub = m[0], engine.Stub{}
			}
		}
		slices.SortFunc(stored.Subscriptions, func(a, b engine.SubscriptionRecord) int { return cmp.Compare(a.Filter, b.Filter) })
		slices.Sort(stored.Incoming)
		found[stored.ClientID] = session{stored.SessionRecord, stored.Subscriptions, stored.Queue, stored.Incoming}
	}
	return found
}

// own returns the sessions that node 1 has.
func (r *rig) own() map[string]session {
	r.t.Helper()
	return source{r.local.Load, r.local.Messages}.read(r.t)
}

// replicated returns the sessions that the others have, each at one of them.
func (r *rig) replicated() map[string]session {
	r.t.Helper()
	all := map[string]session{}
	for _, n := range r.nodes() {
		receiver := r.receiver(n)
		found := source{
			func(ctx context.Context) (*engine.Snapshot, error) { return receiver.Load(ctx, 1) },
			func(ctx context.Context, ids []uint64) ([]*engine.Message, error) {
				return receiver.Messages(ctx, 1, ids)
			},
		}.read(r.t)
		for id, s := range found {
			if _, twice := all[id]; twice {
				r.t.Errorf("session %q has two replicas", id)
			}
			all[id] = s
		}
	}
	return all
}

// sequence makes random changes that do not contradict each other.
type sequence struct {
	rand             *rand.Rand
	session, message uint64
	open             []uint64          // sessions
	tail             map[uint64]uint64 // sequence number, by session
	queued           map[uint64][]uint64
	filters          int
}

func (s *sequence) next() *engine.Changes {
	if s.tail == nil {
		s.tail, s.queued = map[uint64]uint64{}, map[uint64][]uint64{}
	}
	c := &engine.Changes{}
	if len(s.open) == 0 || s.rand.IntN(20) == 0 {
		s.session++
		s.open = append(s.open, s.session)
		c.PutSessions = append(c.PutSessions, engine.SessionRecord{ID: s.session, ClientID: fmt.Sprint("client ", s.session), Version: 5, ExpiryInterval: 3600, CreatedAt: 1})
		return c
	}
	id := s.open[s.rand.IntN(len(s.open))]
	switch s.rand.IntN(12) {
	case 0:
		s.filters++
		c.Subscribed = append(c.Subscribed, engine.SubscriptionRecord{SessionID: id, Filter: fmt.Sprint("filter/", s.filters), Options: 1})
	case 1:
		c.Unsubscribed = append(c.Unsubscribed, engine.SubscriptionRecord{SessionID: id, Filter: fmt.Sprint("filter/", s.rand.IntN(s.filters+1))})
	case 2:
		c.Received = append(c.Received, engine.IncomingRecord{SessionID: id, PacketID: uint16(1 + s.rand.IntN(9))})
	case 3:
		c.Forgotten = append(c.Forgotten, engine.IncomingRecord{SessionID: id, PacketID: uint16(1 + s.rand.IntN(9))})
	case 4, 5, 6:
		if q := s.queued[id]; len(q) > 0 {
			c.Dequeued = append(c.Dequeued, engine.QueueRecord{SessionID: id, Seq: q[0]})
			s.queued[id] = q[1:]
		}
	case 7:
		if q := s.queued[id]; len(q) > 0 {
			c.Released = append(c.Released, engine.QueueRecord{SessionID: id, Seq: q[0]})
		}
	case 8:
		if s.rand.IntN(8) == 0 {
			s.open = slices.DeleteFunc(s.open, func(o uint64) bool { return o == id })
			c.EndedSessions = append(c.EndedSessions, id)
		}
	default:
		s.enqueue(c, 1+s.rand.IntN(200))
	}
	return c
}

// enqueue enqueues a message of a size for some sessions.
func (s *sequence) enqueue(c *engine.Changes, size int) {
	s.message++
	m := &engine.Message{ID: s.message, Topic: "topic", Payload: make([]byte, size), QoS: 2, CreatedAt: 7}
	for _, id := range s.open {
		if s.rand.IntN(3) > 0 {
			continue
		}
		s.tail[id]++
		s.queued[id] = append(s.queued[id], s.tail[id])
		c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: id, Seq: s.tail[id], Message: m, QoS: 2})
	}
	if len(c.Enqueued) > 0 {
		c.Messages = append(c.Messages, m)
	}
}
