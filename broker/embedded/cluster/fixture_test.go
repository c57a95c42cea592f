package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// sideBySide is how many tests run at once: they mostly wait.
const sideBySide = 4

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", fmt.Sprint(sideBySide)); err != nil { // the command line may override it
		panic(err)
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

// eventually waits until a condition returns nil.
func eventually(t testing.TB, condition func() error) {
	t.Helper()
	suite.Eventually(t, condition)
}

// within returns a context for one operation of a test.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), d)
	t.Cleanup(cancel)
	return ctx
}

// fleet is some nodes in this process, on a network that can be cut.
type fleet struct {
	t       testing.TB
	dir     string
	network *network
	nodes   map[NodeID]*station
	log     *logTo
	shares  bool // clusters that are formed have a Shared, and so have the nodes
}

// station is one node of a fleet, whether it runs or not.
type station struct {
	fleet    *fleet
	id       NodeID
	node     *Node
	register *register
	list     *list // its Shared; nil for none
}

// quick is a timing for tests. The heartbeat timeout is long, so that no leader is replaced only
// because the machine is busy.
func quick() Timing {
	return Timing{
		Heartbeat: 2 * time.Second, Election: 2 * time.Second, Lease: 1600 * time.Millisecond, Commit: 5 * time.Millisecond,
		Transport: 2 * time.Second, Probe: 40 * time.Millisecond, Call: 2 * time.Second, Request: 10 * time.Second,
		NoLeader: suite.HangLimit, Dissolve: 2 * time.Second, Announce: time.Second, Retry: 50 * time.Millisecond,
	}
}

func newFleet(t testing.TB) *fleet {
	f := &fleet{t: t, dir: t.TempDir(), network: newNetwork(t), nodes: map[NodeID]*station{}, log: &logTo{}}
	t.Cleanup(func() {
		for _, s := range f.nodes {
			s.kill() // a leader that is closed last would wait for a node to hand over to
		}
		f.network.Close()
		if t.Failed() && testing.Verbose() {
			t.Log(f.log.String())
		}
	})
	return f
}

// logTo records what is logged.
type logTo struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logTo) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logTo) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts or restarts a node.
func (f *fleet) start(id NodeID, tune ...func(*Options)) *station {
	f.t.Helper()
	s := &station{fleet: f, id: id}
	dir := filepath.Join(f.dir, fmt.Sprint("node", id))
	must(f.t, os.MkdirAll(dir, 0o700))
	s.register = openRegister(f.t, filepath.Join(dir, "register.db"))
	o := Options{
		Dir: filepath.Join(dir, "cluster"), Listen: "127.0.0.1:0", Version: "test", Machine: s.register, Serve: s.serve, Timing: quick(), handshake: suite.HangLimit,
		Log:  slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", int(id)),
		dial: func(ctx context.Context, hostPort string) (net.Conn, error) { return f.network.dial(ctx, id, hostPort) },
	}
	if f.shares {
		s.list = openList(f.t, filepath.Join(dir, "list.db"))
		o.Shared = s.list
	}
	for _, tune := range tune {
		tune(&o)
	}
	var err error
	s.node, err = Open(context.Background(), o)
	must(f.t, err)
	f.network.set(id, s.node)
	f.nodes[id] = s
	return s
}

// serve handles forwarded requests: a write, or a key to be read.
func (s *station) serve(ctx context.Context, _ NodeID, request []byte) ([]byte, error) {
	n := s.node
	if entry, ok := strings.CutPrefix(string(request), "share "); ok {
		return n.ProposeShared(ctx, []byte(entry))
	}
	l, err := n.Lead(ctx)
	if err != nil {
		return nil, err
	}
	if key, ok := strings.CutPrefix(string(request), "read "); ok {
		value := s.register.get(key)
		return []byte(value), l.Confirm(ctx)
	}
	answer, _, err := l.Propose(ctx, request)
	old, _ := answer.(string)
	return []byte(old), err
}

// close stops the node as a process does at a regular end.
func (s *station) close() { s.shut(true) }

// kill stops the node without notifying the others.
func (s *station) kill() { s.shut(false) }

func (s *station) shut(handOver bool) {
	if s.node == nil {
		return
	}
	s.fleet.network.set(s.id, nil)
	if err := s.node.shut(context.Background(), handOver); err != nil {
		s.fleet.t.Errorf("close node %d: %v", s.id, err)
	}
	if err := s.register.close(); err != nil {
		s.fleet.t.Errorf("close the register of node %d: %v", s.id, err)
	}
	if s.list != nil {
		if err := s.list.close(); err != nil {
			s.fleet.t.Errorf("close the list of node %d: %v", s.id, err)
		}
	}
	s.node = nil
}

// lose deletes everything that a stopped node has stored.
func (s *station) lose() {
	must(s.fleet.t, os.RemoveAll(filepath.Join(s.fleet.dir, fmt.Sprint("node", s.id))))
}

// member returns the Member of a node.
func member(id NodeID) Member {
	return Member{NodeID: id, Address: fmt.Sprintf("node%d.test", id), Port: 7000}
}

func spec(self NodeID, ids ...NodeID) Spec {
	s := Spec{Name: "c", SyncMode: "dynsec", Self: self}
	for _, id := range ids {
		s.Members = append(s.Members, member(id))
	}
	return s
}

// form starts nodes and creates a cluster of them, in which all are voters.
func (f *fleet) form(ids ...NodeID) *fleet {
	f.t.Helper()
	return f.formWith(nil, ids...)
}

// formWith forms a cluster of nodes with options of their own.
func (f *fleet) formWith(tune func(*Options), ids ...NodeID) *fleet {
	f.t.Helper()
	for _, id := range ids {
		if tune == nil {
			f.start(id)
		} else {
			f.start(id, tune)
		}
	}
	created := spec(ids[0], ids...)
	created.Shared = f.shares
	invitations, err := f.nodes[ids[0]].node.Create(within(f.t, suite.HangLimit), created)
	must(f.t, err)
	var wg sync.WaitGroup
	for _, i := range invitations {
		wg.Go(func() {
			if err := f.nodes[i.NodeID].node.Join(within(f.t, suite.HangLimit), spec(i.NodeID, ids...), i); err != nil {
				f.t.Errorf("join node %d: %v", i.NodeID, err)
			}
		})
	}
	wg.Wait()
	f.settled(len(ids))
	return f
}

// leader waits for a leader that all running nodes of one part of the network know.
func (f *fleet) leader(among ...NodeID) *station {
	f.t.Helper()
	var found *station
	eventually(f.t, func() error {
		found = nil
		for id, s := range f.nodes {
			if s.node == nil || len(among) > 0 && !slices.Contains(among, id) {
				continue
			}
			if _, err := s.node.Lead(within(f.t, time.Second)); err == nil {
				found = s
			}
		}
		if found == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
	return found
}

// follower returns a node that runs and does not lead.
func (f *fleet) follower() *station {
	l := f.leader()
	for _, s := range f.nodes {
		if s != l && s.node != nil {
			return s
		}
	}
	f.t.Fatal("there is only one node")
	return nil
}

// settled waits until so many nodes are voters and in contact, and all running nodes know that.
func (f *fleet) settled(voters int) {
	f.t.Helper()
	eventually(f.t, func() error {
		got := f.leader().node.Figures()
		if got.Voters != voters || got.InContact != voters || !got.Leading {
			return fmt.Errorf("want %d voters in contact, got %+v", voters, got)
		}
		for id, s := range f.nodes {
			if s.node == nil || s.node.membership.Load() == nil {
				continue
			}
			if got := s.node.Figures().Voters; got != voters {
				return fmt.Errorf("node %d knows of %d voters", id, got)
			}
			if !s.hasOwnKey() {
				return fmt.Errorf("node %d has no key of its own yet", id)
			}
		}
		return nil
	})
}

// hasOwnKey reports whether a node that takes part uses only a key that it has made itself.
func (s *station) hasOwnKey() bool {
	place := s.node.membership.Load()
	p := place.fsm.state.Load().Keys[place.credentials.self.String()]
	own, err := fingerprintOf(place.credentials.own.Load().key)
	return err == nil && place.current.Load().Own && p == pin{Key: own}
}

// put writes through a node. A write of unknown outcome is repeated, as a client
// would; the same value may be written twice.
func (s *station) put(t testing.TB, key, value string) {
	t.Helper()
	ctx := within(t, suite.HangLimit)
	for {
		_, err := s.node.Forward(ctx, write{key, value}.encode())
		switch {
		case err == nil:
			return
		case ctx.Err() != nil || !errors.Is(err, ErrUnconfirmed):
			t.Fatalf("write %s at node %d: %v", key, s.id, err)
		}
	}
}

// agree waits until all running nodes have the same state, which includes some values.
func (f *fleet) agree(want map[string]string) {
	f.t.Helper()
	eventually(f.t, func() error {
		var first map[string]string
		for id, s := range f.nodes {
			if s.node == nil {
				continue
			}
			got := s.register.all()
			if first == nil {
				first = got
			}
			if !maps.Equal(first, got) {
				return fmt.Errorf("node %d holds %d values unlike another one", id, len(got))
			}
			for k, v := range want {
				if got[k] != v {
					return fmt.Errorf("node %d holds %q under %q, want %q", id, got[k], k, v)
				}
			}
		}
		return nil
	})
}
