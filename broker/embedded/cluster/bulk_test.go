package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// bulk is a register with a large part beside its values, which never changes and is slow to write
// and read.
type bulk struct {
	*register
	size int
	slow time.Duration // for each mebibyte

	mu       sync.Mutex
	received int // of the large part, in the last Restore
}

const mebibyte = 1 << 20

type bulkView struct {
	registerView
	bulk *bulk
}

func (b *bulk) Snapshot(context.Context) (Snapshot, error) {
	return bulkView{registerView{b.all()}, b}, nil
}

func (v bulkView) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(v.values)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return 0, err
	}
	chunk := make([]byte, mebibyte)
	for range v.bulk.size / mebibyte {
		pause(context.Background(), v.bulk.slow)
		if _, err := w.Write(chunk); err != nil {
			return 0, err
		}
	}
	return int64(len(text) + 1 + v.bulk.size), nil
}

func (b *bulk) Restore(ctx context.Context, index uint64, from io.Reader) error {
	r := bufio.NewReader(from)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	received := 0
	chunk := make([]byte, mebibyte)
	for {
		n, err := io.ReadFull(r, chunk)
		received += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		pause(ctx, b.slow)
	}
	b.mu.Lock()
	b.received = received
	b.mu.Unlock()
	return b.register.Restore(ctx, index, bytes.NewReader(line))
}

// usual is the timing of the product.
func usual(o *Options) {
	t := o.Timing
	o.Timing = Timing{Probe: t.Probe, Request: t.Request, Dissolve: t.Dissolve, Announce: t.Announce, Retry: t.Retry}
}

// calm is a timing for tests in which no leader fails.
func calm(o *Options) {
	usual(o)
	o.Timing.Heartbeat, o.Timing.Lease = 20*time.Second, 20*time.Second
}

// gaps writes at the leader while a function runs. It returns the longest time without an
// acknowledgement, and the number of acknowledgements.
func (f *fleet) gaps(during func()) (longest time.Duration, n int) {
	ctx, stop := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	leader := f.leader()
	go func() {
		defer close(done)
		for at := time.Now(); ctx.Err() == nil; n++ {
			leader.node.Propose(ctx, write{fmt.Sprint("gap", n%9), "x"}.encode()) //nolint:errcheck // any acknowledged write counts
			longest = max(longest, time.Since(at))
			pause(ctx, 5*time.Millisecond) // leaves the CPU to the function
			at = time.Now()
		}
	}()
	during()
	stop()
	<-done
	return longest, n
}

// TestLargeSnapshot writes, sends and restores a large and slow snapshot under load. The leader
// stays the same, and writes continue.
func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	parts := map[NodeID]*bulk{}
	const slow = 600 * time.Millisecond // the snapshot takes longer than the heartbeat timeout
	slowly := func(o *Options) {
		usual(o)
		o.Timing.Heartbeat = 8 * time.Second
	}
	tune := func(o *Options) {
		slowly(o)
		b := &bulk{register: o.Machine.(*register), size: 16 * mebibyte, slow: slow}
		o.Machine = b
		parts[NodeID(len(parts)+1)] = b
	}
	f.formWith(tune, 1, 2, 3)
	away := f.follower()
	away.kill()
	away.lose()
	term := f.leader().node.Term()
	var wrote, restored time.Duration
	longest, n := f.gaps(func() {
		began := time.Now()
		must(t, f.leader().node.membership.Load().raft.Snapshot().Error())
		wrote = time.Since(began)
		began = time.Now()
		back := f.start(away.id, func(o *Options) {
			slowly(o)
			parts[0] = &bulk{register: o.Machine.(*register), slow: slow}
			o.Machine = parts[0]
		})
		invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(back.id))
		must(t, err, back.node.Join(within(t, suite.HangLimit), spec(back.id, 1, 2, 3), invitation))
		restored = time.Since(began)
	})
	f.settled(3)
	f.agree(nil)
	if got := f.leader().node.Term(); got != term {
		t.Errorf("the term is %d, and was %d", got, term)
	}
	if parts[0].received != 16*mebibyte {
		t.Errorf("%d bytes were taken over", parts[0].received)
	}
	t.Logf("written in %v, sent and taken over in %v; at most %v between two acknowledged writes, %d of them",
		wrote.Round(time.Millisecond), restored.Round(time.Millisecond), longest.Round(time.Millisecond), n)
}

// sponge is a machine that counts what it has applied.
type sponge struct {
	mu       sync.Mutex
	applied  uint64
	bytes    int
	restores int
}

func (p *sponge) Apply(index uint64, command []byte) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied, p.bytes = index, p.bytes+len(command)
	return p.bytes
}

func (p *sponge) Applied() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied
}

func (p *sponge) Snapshot(context.Context) (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return registerView{map[string]string{"bytes": strconv.Itoa(p.bytes)}}, nil
}

func (p *sponge) Restore(_ context.Context, index uint64, from io.Reader) error {
	var values map[string]string
	if err := json.NewDecoder(from).Decode(&values); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	p.bytes, err = strconv.Atoi(values["bytes"])
	p.applied = index
	p.restores++
	return err
}

// sponges creates a cluster of three of them, with nearly the timing of the product and a log that
// is not compacted.
func sponges(t testing.TB) (*fleet, map[NodeID]*sponge) {
	t.Helper()
	f, all := newFleet(t), map[NodeID]*sponge{}
	f.formWith(func(o *Options) {
		usual(o)
		o.Timing.Heartbeat, o.Timing.Lease = 10*time.Second, 10*time.Second // the test uses the whole CPU
		o.Timing.SnapshotBytes, o.Timing.TrailingBytes, o.Timing.SnapshotAfter = 1<<40, 1<<40, 1<<40
		p := new(sponge)
		all[NodeID(len(all)+1)], o.Machine = p, p
	}, 1, 2, 3)
	return f, all
}

// TestLargeEntries replicates entries of 512 KiB, and one of 8 MiB, while a follower is away. The
// leader stays the same.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	f, all := sponges(t)
	l, away := f.leader(), f.follower()
	f.network.isolate(away.id)
	leadership, err := l.node.Lead(within(t, suite.HangLimit))
	must(t, err)
	began, sum := time.Now(), 0
	var waits []func(context.Context) (any, error)
	for _, size := range append(slices.Repeat([]int{512 << 10}, 8), 8<<20, 512<<10) {
		waits = append(waits, leadership.Begin(make([]byte, size)))
		sum += size
	}
	for _, wait := range waits {
		if _, err := wait(within(t, suite.HangLimit)); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	f.network.mend(away.id)
	began = time.Now()
	eventually(t, func() error {
		p := all[away.id]
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.bytes != sum || p.restores != 1 {
			return fmt.Errorf("it has %d bytes of %d, and took over %d snapshots", p.bytes, sum, p.restores)
		}
		return nil
	})
	if got := l.node.Term(); got != leadership.Term() {
		t.Errorf("the term is %d, and was %d", got, leadership.Term())
	}
	t.Logf("%d MiB in %v; a follower that lacked them had them after %v", sum/mebibyte, took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// TestLogIsBounded takes a snapshot when the entries since the last one are large, and deletes
// them.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.start(1, func(o *Options) {
		o.Timing.SnapshotBytes, o.Timing.TrailingBytes, o.Timing.SnapshotEvery = mebibyte, mebibyte, 20*time.Millisecond
		o.Timing.SnapshotAfter = 1 << 40
	})
	_, err := s.node.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	for range 24 {
		s.put(t, "k", strings.Repeat("0", mebibyte/4))
	}
	eventually(t, func() error {
		if got := s.node.store.Since(0); got > 4*mebibyte {
			return fmt.Errorf("the log has %d bytes", got)
		}
		return nil
	})
}
