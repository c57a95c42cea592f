package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

// simulatedLog is the log of a cluster. Orders may be lost, or applied although their proposer gets an error, and
// then much later.
type simulatedLog struct {
	Agreement
	random *rand.Rand
	tasks  sync.WaitGroup

	mu    sync.Mutex
	cut   map[int]bool // nodes without a majority
	calm  bool         // nothing is lost any more
	count map[byte]int // of orders that had an effect, by kind
}

var errUnconfirmed = errors.New("it is not known whether the order is applied")

// at returns the log as a node sees it.
func (l *simulatedLog) at(node int) Agreer { return nodeLog{l, node} }

type nodeLog struct {
	*simulatedLog
	node int
}

func (n nodeLog) Agree(ctx context.Context, o Order) error {
	n.mu.Lock()
	cut, calm := n.cut[n.node], n.calm
	n.mu.Unlock()
	wait := func(limit time.Duration) {
		if !calm {
			<-time.After(time.Duration(n.random.Int64N(int64(limit))))
		}
	}
	wait(100 * time.Millisecond)
	switch {
	case cut:
		return errUnconfirmed
	case !calm && n.random.IntN(4) == 0:
		n.tasks.Go(func() {
			wait(20 * time.Second)
			n.apply(o) //nolint:errcheck // no node waits for it
		})
		return errUnconfirmed
	}
	err := n.apply(o)
	wait(100 * time.Millisecond)
	if ctx.Err() != nil || !calm && n.random.IntN(4) == 0 {
		return errUnconfirmed
	}
	return err
}

func (l *simulatedLog) apply(o Order) error {
	err := l.Apply(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.count[o.Kind]++
	}
	return err
}

func (l *simulatedLog) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// acknowledged is what node 1 has acknowledged for sessions, by client id: sequence numbers.
type acknowledged struct {
	mu   sync.Mutex
	seqs map[string][]uint64
}

func (a *acknowledged) add(clientID string, seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seqs[clientID] = append(a.seqs[clientID], seq)
}

// fencing is a run of TestFencing.
type fencing struct {
	*rig
	log    *simulatedLog
	acks   acknowledged
	random *rand.Rand

	mu      sync.Mutex
	clients map[string]uint64                     // sessions of node 1
	tails   map[string]uint64                     // last sequence number
	last    uint64                                // session and message
	found   map[uint64]map[string]map[uint64]bool // sequence numbers of replicas that were promoted, by stream
	ended   map[uint64]bool                       // replicas whose sessions have ended at node 1
	final   map[string]map[uint64]bool            // sequence numbers with which sessions have continued, by client id
	rounds  int
}

// TestFencing has sessions continue from replicas at random times, while requests and orders are lost. What node 1 has
// acknowledged, before it learns of that and afterwards, must be in the replica that was promoted.
func TestFencing(t *testing.T) {
	t.Parallel()
	rounds := 0
	for i := range suite.FromEnvironment(t, "REPLICAS_SIMULATIONS", 3) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rounds += simulateFencing(t) })
		})
	}
	if rounds == 0 {
		t.Error("no replica was promoted")
	}
}

func simulateFencing(t *testing.T) (rounds int) {
	f := &fencing{
		random: suite.Rand(t), clients: map[string]uint64{}, tails: map[string]uint64{}, found: map[uint64]map[string]map[uint64]bool{}, ended: map[uint64]bool{}, final: map[string]map[uint64]bool{},
		acks: acknowledged{seqs: map[string][]uint64{}},
	}
	f.log = &simulatedLog{random: f.random, cut: map[int]bool{}, count: map[byte]int{}}
	f.rig = newRig(t, 2, productTimes, func(o *Options) { o.Self, o.Agreer, o.Superseded = 1, f.log.at(1), f.superseded })
	for _, n := range f.nodes() {
		f.stopReceiver(n)
		f.startReceiver(n, f.agreed(n))
	}
	f.SetPeers(f.nodes())
	lost := errors.New("lost")
	cut := map[int]bool{}
	f.net.inject(func(to int, _ []byte) (before, after error) {
		f.mu.Lock()
		isCut := cut[to]
		f.mu.Unlock()
		switch {
		case isCut:
			return lost, nil
		case f.random.IntN(10) == 0:
			return nil, lost
		}
		return nil, nil
	})
	for range 150 {
		<-time.After(time.Duration(f.random.Int64N(int64(time.Second))))
		node := f.nodes()[f.random.IntN(2)]
		switch f.random.IntN(12) {
		case 0, 1:
			f.mu.Lock()
			cut[node] = !cut[node]
			f.mu.Unlock()
		case 2:
			f.log.set(func() { f.log.cut[1] = !f.log.cut[1] })
		case 3:
			f.promote(node)
		case 4:
			f.stopReceiver(node)
			f.startReceiver(node, f.agreed(node))
		default:
			f.publish()
		}
	}
	f.net.inject(nil)
	f.log.set(func() { f.log.calm, f.log.cut = true, map[int]bool{} })
	f.log.tasks.Wait()
	for _, n := range f.nodes() {
		if f.log.Last(1, n).Kind == Promote {
			f.promote(n)
		}
	}
	<-time.After(time.Minute)
	f.awaitComplete()
	f.publish()
	<-time.After(time.Minute)
	f.check()
	return f.rounds
}

// check checks that the sessions that have continued had what was acknowledged, be that before or after.
func (f *fencing) check() {
	f.acks.mu.Lock()
	defer f.acks.mu.Unlock()
	for id, seqs := range f.acks.seqs {
		for _, seq := range seqs {
			if f.clients[id] == 0 && !f.final[id][seq] {
				f.t.Errorf("message %d of %q was acknowledged, and is not in the replica that was promoted", seq, id)
			}
		}
	}
}

func (f *fencing) agreed(node int) func(*ReceiverOptions) {
	return func(o *ReceiverOptions) { o.Self, o.Agreer = node, f.log.at(node) }
}

// publish enqueues messages for some sessions, and opens others.
func (f *fencing) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.clients) < 6 {
		f.last++
		id := fmt.Sprint("client ", f.last)
		f.clients[id] = f.last
		f.Submit(&engine.Changes{PutSessions: []engine.SessionRecord{{ID: f.last, ClientID: id, Version: 5, ExpiryInterval: 3600}}})
	}
	for id, sessionID := range f.clients {
		f.last++
		f.tails[id]++
		seq := f.tails[id]
		m := &engine.Message{ID: f.last, Topic: "a", QoS: 1}
		c := &engine.Changes{Messages: []*engine.Message{m}, Enqueued: []engine.QueueRecord{{SessionID: sessionID, Seq: seq, Message: m, QoS: 1}}}
		c.Done = ordered(func(err error) {
			if err == nil {
				f.acks.add(id, seq)
			} else if !errors.Is(err, engine.ErrUncertain) {
				f.t.Errorf("a change failed: %v", err)
			}
		})
		f.Submit(c)
	}
}

// promote has the sessions of node 1 continue at a node, if that is possible, and notes what the replica has.
func (f *fencing) promote(node int) {
	receiver := f.receiver(node)
	if err := receiver.Promote(f.t.Context(), 1); err != nil {
		if f.log.Last(1, node).Kind != Promote { // or it was applied although that is not known
			return
		}
	}
	snapshot, err := receiver.Load(f.t.Context(), 1)
	if errors.Is(err, ErrNoReplica) { // its sessions were adopted already
		return
	}
	must(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rounds++
	found := map[string]map[uint64]bool{}
	for _, s := range snapshot.Sessions {
		found[s.ClientID] = map[uint64]bool{}
		for _, q := range s.Queue {
			found[s.ClientID][q.Seq] = true
		}
	}
	f.found[f.log.Last(1, node).Stream] = found
}

// superseded ends the sessions of node 1 that have continued at another node, once that has noted what it has.
func (f *fencing) superseded(ctx context.Context, node int, has func(clientID string) bool) error {
	if !f.endSuperseded(node, has) {
		return errors.New("not adopted yet")
	}
	return f.receiver(node).Adopted(ctx, 1)
}

func (f *fencing) endSuperseded(node int, has func(clientID string) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	stream := f.log.Last(1, node).Stream
	found := f.found[stream]
	if found == nil || f.ended[stream] {
		return f.ended[stream]
	}
	f.ended[stream] = true
	for id, sessionID := range f.clients {
		if has(id) {
			f.final[id] = found[id]
			f.Submit(&engine.Changes{Owed: true, EndedSessions: []uint64{sessionID}})
			delete(f.clients, id)
		}
	}
	return true
}

// TestAgreement compares all orders of a few streams, some of which come late or twice.
func TestAgreement(t *testing.T) {
	t.Parallel()
	attach, detach, promote := Order{Kind: Attach, From: 1, At: 2, Stream: 5}, Order{Kind: Detach, From: 1, At: 2, Stream: 5}, Order{Kind: Promote, From: 1, At: 2, Stream: 5}
	end := Order{Kind: End, From: 1, At: 2, Stream: 5}
	later := func(o Order) Order {
		o.Stream = 6
		return o
	}
	for _, test := range []struct {
		name   string
		orders []Order
		want   error // of the last one
	}{
		{"promoted", []Order{attach, promote}, nil},
		{"promoted twice", []Order{attach, promote, promote}, nil},
		{"not attached", []Order{promote}, ErrVoid},
		{"detached", []Order{attach, detach, promote}, ErrVoid},
		{"detached twice", []Order{attach, detach, detach}, nil},
		{"promoted first", []Order{attach, promote, detach}, ErrPromoted},
		{"attach comes late", []Order{detach, attach}, ErrVoid},
		{"attach comes twice", []Order{attach, promote, attach}, ErrPromoted},
		{"another replica", []Order{attach, later(attach), promote}, ErrVoid},
		{"the later replica", []Order{attach, detach, later(attach), later(promote)}, nil},
		{"an earlier replica", []Order{later(attach), attach}, ErrVoid},
		{"an earlier detach", []Order{later(attach), detach}, ErrVoid},
		{"promoted and not ended", []Order{attach, promote, later(attach)}, ErrPromoted},
		{"promoted and ended", []Order{attach, promote, end, later(attach)}, nil},
		{"another one ended", []Order{attach, promote, later(end), later(attach)}, ErrPromoted},
		{"ended twice", []Order{attach, promote, end, end}, nil},
		{"ended and not promoted", []Order{attach, end}, ErrVoid},
		{"promote comes twice", []Order{attach, promote, end, promote}, ErrVoid},
		{"end comes late", []Order{attach, promote, end, later(attach), end, later(promote)}, nil},
		{"another node", []Order{attach, {Kind: Promote, From: 1, At: 3, Stream: 5}}, ErrVoid},
	} {
		var a Agreement
		var err error
		for _, o := range test.orders {
			err = a.Apply(o)
		}
		if !errors.Is(err, test.want) {
			t.Errorf("%s: the last order has %v, want %v", test.name, err, test.want)
		}
	}
	var a Agreement
	for _, o := range slices.Concat([]Order{attach, promote}, []Order{later(detach)}) {
		a.Apply(o) //nolint:errcheck // only the result counts
	}
	if last := a.Last(1, 2); last != promote {
		t.Errorf("the last order is %+v, want that of the promotion", last)
	}
}
