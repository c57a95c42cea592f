package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

// snap takes a snapshot and writes it.
func snap(t testing.TB, s *opened, part Part) []byte {
	t.Helper()
	v, err := s.Snapshot(context.Background(), part)
	must(t, err)
	defer v.Release()
	var b bytes.Buffer
	n, err := v.WriteTo(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Errorf("wrote %d bytes and says %d", b.Len(), n)
	}
	return b.Bytes()
}

// counting returns a function that returns successive IDs.
func counting(from uint64) func() uint64 {
	return func() uint64 {
		from++
		return from
	}
}

// filled returns a store with records of each kind, in which one message is both queued
// and retained.
func filled(t testing.TB) *opened {
	t.Helper()
	s := fresh(t, Options{Durability: storage.Process})
	shared := message(1, "shared")
	store(t, s,
		&engine.Changes{
			PutSessions: []engine.SessionRecord{session(1), {ID: 2, ClientID: "with a Will", Will: &engine.WillRecord{Topic: "w", Payload: []byte("gone")}}},
			Subscribed:  []engine.SubscriptionRecord{{SessionID: 1, Filter: "a/#", Options: 1, ID: 2}, {SessionID: 2, Filter: "b"}},
			Received:    []engine.IncomingRecord{{SessionID: 1, PacketID: 7}},
			Retained:    []engine.RetainedRecord{{Topic: "shared", Message: shared}, {Topic: "alone", Message: message(3, "alone")}},
		},
		queued(1, shared, message(2, "queued")), queued(2, shared),
		&engine.Changes{Released: []engine.QueueRecord{{SessionID: 2, Seq: 1}}},
	)
	return s
}

// TestSnapshotOfEverything restores a snapshot in a store with other contents, of which
// nothing is left.
func TestSnapshotOfEverything(t *testing.T) {
	t.Parallel()
	from, to := filled(t), fresh(t, Options{})
	must(t, from.Apply(4, nil))
	store(t, to,
		&engine.Changes{PutSessions: []engine.SessionRecord{session(1), session(9)}, Retained: []engine.RetainedRecord{{Topic: "old", Message: message(8, "old")}}},
		queued(9, message(1, "queued")),
	)
	v, err := from.Snapshot(t.Context(), Everything)
	must(t, err)
	if got := v.Index(); got != 4 {
		t.Errorf("the snapshot is of index %d, want 4", got)
	}
	before := whole(t, from.Store)
	must(t, from.Apply(5, []*engine.Changes{{EndedSessions: []uint64{1, 2}, Retained: []engine.RetainedRecord{{Topic: "shared"}}}}))
	var b bytes.Buffer
	_, err = v.WriteTo(&b)
	must(t, err)
	v.Release()

	b.WriteString("behind")
	retained, err := to.Restore(t.Context(), 4, Everything, &b, nil)
	must(t, err)
	if len(retained) != 0 || b.String() != "behind" {
		t.Errorf("got retained messages %v, and read so far that %q is left", retained, b.String())
	}
	wantIndex(t, to, 4)
	if diff := cmp.Diff(describe(before), describe(whole(t, to.Store))); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	sound(t, to)
	must(t, to.Apply(5, []*engine.Changes{{EndedSessions: []uint64{1, 2}, Retained: []engine.RetainedRecord{{Topic: "shared"}}}}))
	wantSame(t, from, to)
	sound(t, to)
}

// TestSnapshotOfRetained replaces the retained messages and nothing else. A message that
// was retained and is queued stays queued.
func TestSnapshotOfRetained(t *testing.T) {
	t.Parallel()
	from, to := fresh(t, Options{}), filled(t)
	store(t, from, &engine.Changes{
		PutSessions: []engine.SessionRecord{session(5)},
		Retained:    []engine.RetainedRecord{{Topic: "shared", Message: message(2, "shared")}, {Topic: "new", Message: message(3, "new")}},
	}, queued(5, message(4, "queued")))
	before := whole(t, to.Store)
	retained, err := to.Restore(t.Context(), 9, RetainedOnly, bytes.NewReader(snap(t, from, RetainedOnly)), counting(100))
	must(t, err)
	now := whole(t, to.Store)
	want := &engine.Snapshot{Sessions: before.Sessions}
	for i, topic := range []string{"shared", "new"} {
		m := message(uint64(2+i), topic)
		m.ID = uint64(101 + i)
		want.Retained = append(want.Retained, m)
	}
	if diff := cmp.Diff(describe(want), describe(now)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(describe(want), describe(&engine.Snapshot{Sessions: now.Sessions, Retained: retained})); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	wantRows(t, to, map[string]int{"session": 2, "subscription": 2, "queue": 3, "incoming": 1, "message": 4})
	wantIndex(t, to, 9)
	wantShared(t, to, RetainedOnly)
	must(t, to.Apply(10, nil))
	wantShared(t, to, RetainedOnly)
	sound(t, to)
	again := reopen(t, to)
	to.file, to.Store = again.file, again.Store // what the cleanup shuts
	wantShared(t, again, RetainedOnly)
	_, err = to.Restore(t.Context(), 2, Everything, bytes.NewReader(snap(t, from, Everything)), nil)
	must(t, err)
	wantShared(t, to, Everything)
	wantIndex(t, to, 2)
}

// TestRestoreDamaged expects an error for a snapshot that is cut short anywhere, is of
// another part, or cannot be read; and no change of the store.
func TestRestoreDamaged(t *testing.T) {
	t.Parallel()
	from, to := filled(t), filled(t)
	must(t, from.Apply(1, []*engine.Changes{queued(1, message(8, "t"))}), to.Apply(3, nil))
	for _, part := range []Part{Everything, RetainedOnly} {
		whole := snap(t, from, part)
		damaged := map[string]io.Reader{
			"a failing reader": io.MultiReader(bytes.NewReader(whole[:len(whole)-1]), failing{}),
			"another part":     bytes.NewReader(snap(t, from, Everything+RetainedOnly-part)),
			"another count":    bytes.NewReader(append(whole[:len(whole)-1:len(whole)-1], 9)),
			"a long frame":     bytes.NewReader(append(whole[:headBytes:headBytes], 0xff, 0, 0, 0)),
			"a long short one": bytes.NewReader(append(whole[:headBytes:headBytes], 0x10, 0, 0, 0, 1)),
			"nonsense":         bytes.NewReader(append(whole[:headBytes:headBytes], 0, 0, 0, 3, 'a', 'b', 'c')),
			"large numbers":    bytes.NewReader(append([]byte{snapshotVersion, byte(part), 0x80}, whole[3:]...)),
		}
		for n := range whole {
			damaged[fmt.Sprintf("%d of %d bytes", n, len(whole))] = bytes.NewReader(whole[:n])
		}
		for name, r := range damaged {
			if _, err := to.Restore(t.Context(), 7, part, r, counting(100)); err == nil {
				t.Errorf("%s of part %d: restored", name, part)
			}
		}
	}
	wantIndex(t, to, 3)
	wantSame(t, filled(t), to)
	sound(t, to)
	must(t, to.Apply(4, []*engine.Changes{queued(1, message(9, "t"))}))
	sound(t, to)
}

// failing is a reader that always fails.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("torn") }

// TestSnapshotRefused passes invalid arguments.
func TestSnapshotRefused(t *testing.T) {
	t.Parallel()
	s := filled(t)
	if _, err := s.Snapshot(t.Context(), 0); err == nil {
		t.Error("took a snapshot of no part")
	}
	if _, err := s.Restore(t.Context(), 1, 3, bytes.NewReader(nil), nil); err == nil {
		t.Error("restored no part")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Snapshot(ctx, Everything); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Restore(ctx, 1, Everything, bytes.NewReader(snap(t, s, Everything)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	v, err := s.Snapshot(t.Context(), Everything)
	must(t, err)
	if _, err := v.WriteTo(failing{}); err == nil {
		t.Error("wrote to what cannot be written to")
	}
	v.Release()
	v.Release()
	if _, err := v.WriteTo(io.Discard); err == nil {
		t.Error("wrote what was released")
	}
}

func (failing) Write([]byte) (int, error) { return 0, errors.New("torn") }

// TestSnapshotOfMuch has more than one frame of each kind, and a message with more queue
// rows than fit into a frame.
func TestSnapshotOfMuch(t *testing.T) {
	t.Parallel()
	from, to := fresh(t, Options{Durability: storage.Process}), fresh(t, Options{Durability: storage.Process})
	const sessions, width = 400, 4096
	wide := strings.Repeat("x", width)
	common := message(1, "common")
	c := &engine.Changes{Retained: []engine.RetainedRecord{{Topic: "common", Message: common}}}
	for id := range uint64(sessions) {
		c.PutSessions = append(c.PutSessions, engine.SessionRecord{ID: id + 1, ClientID: fmt.Sprint(id), Username: wide})
		c.Subscribed = append(c.Subscribed, engine.SubscriptionRecord{SessionID: id + 1, Filter: wide})
		c.Received = append(c.Received, engine.IncomingRecord{SessionID: id + 1, PacketID: 1})
		c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: id + 1, Seq: 1, Message: common, QoS: 1, Share: wide})
	}
	must(t, from.Apply(1, []*engine.Changes{c, queued(1, big(2, "large"), message(3, "small")), queued(2, big(4, "large"))}))
	whole := snap(t, from, Everything)
	if frames := binary.BigEndian.Uint64(whole[len(whole)-8:]); frames < 3*sessions*width/frameWeight {
		t.Errorf("wrote %d frames", frames)
	}
	_, err := to.Restore(t.Context(), 1, Everything, bytes.NewReader(whole), nil)
	must(t, err)
	wantSame(t, from, to)
	sound(t, to)
	if again := snap(t, to, Everything); !bytes.Equal(whole, again) {
		t.Errorf("a snapshot of what was restored has %d bytes, the first one %d, and they differ", len(again), len(whole))
	}
}

// TestSnapshotOfModel makes random changes in one store, and applies them to others that
// begin with a snapshot.
func TestSnapshotOfModel(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	m := &model{rand: rand.New(rand.NewPCG(seed, 0)), retained: map[string]*engine.Message{}}
	first, second := fresh(t, Options{Durability: storage.Process}), fresh(t, Options{Durability: storage.Process})
	for index := uint64(1); index <= 60; index++ {
		var group []*engine.Changes
		for range 1 + m.rand.IntN(30) {
			group = append(group, m.changes())
		}
		encoded := AppendChanges(nil, group)
		must(t, first.Apply(index, group))
		if m.chance(8) {
			_, err := second.Restore(t.Context(), index, Everything, bytes.NewReader(snap(t, first, Everything)), nil)
			must(t, err)
		} else {
			again, err := DecodeChanges(encoded)
			must(t, err, second.Apply(index, again))
		}
		sound(t, second)
	}
	if diff := cmp.Diff(describe(m.snapshot()), describe(whole(t, second.Store))); diff != "" {
		t.Errorf("seed %d (-want +got):\n%s", seed, diff)
	}
	wantSame(t, first, second)
}

// TestSnapshotBesideChanges takes and restores snapshots while changes are applied.
// Each has the contents of its index.
func TestSnapshotBesideChanges(t *testing.T) {
	t.Parallel()
	from, to := fresh(t, Options{Durability: storage.Process}), fresh(t, Options{Durability: storage.Process})
	done, last := make(chan struct{}), uint64(400)
	go func() {
		defer close(done)
		for index := uint64(1); index <= last; index++ {
			m := message(index, "kept")
			c := &engine.Changes{Retained: []engine.RetainedRecord{{Topic: "kept", Message: m}}}
			if err := from.Apply(index, []*engine.Changes{c}); err != nil {
				t.Errorf("apply: %v", err)
				return
			}
		}
	}()
	for taken := uint64(0); taken < last && !t.Failed(); {
		v, err := from.Snapshot(t.Context(), Everything)
		must(t, err)
		taken = v.Index()
		var b bytes.Buffer
		_, err = v.WriteTo(&b)
		v.Release()
		must(t, err)
		if taken == 0 {
			continue
		}
		_, err = to.Restore(t.Context(), taken, Everything, &b, nil)
		must(t, err)
		now, err := to.Load(t.Context())
		must(t, err)
		if r := now.Retained; len(r) != 1 || r[0].ID != taken {
			t.Errorf("a snapshot up to %d holds %v", taken, r)
		}
	}
	<-done
}

// FuzzRestore restores snapshots that may be damaged. One that is accepted is complete,
// and is not read beyond its end.
func FuzzRestore(f *testing.F) {
	frame := AppendChanges(nil, everything())
	head := append([]byte{snapshotVersion, byte(Everything)}, make([]byte, headBytes-2)...)
	whole := binary.BigEndian.AppendUint32(head[:headBytes:headBytes], uint32(len(frame)))
	whole = binary.BigEndian.AppendUint64(append(append(whole, frame...), 0, 0, 0, 0), 1)
	f.Add(whole)
	f.Add(append(whole[:len(whole):len(whole)], "behind"...))
	f.Add(whole[:len(whole)/2])
	f.Add(append(head, make([]byte, 12)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		in := &snapshotReader{ctx: t.Context(), at: position{index: 1, part: Everything}, r: r}
		groups := uint64(0)
		err := in.each(func([]*engine.Changes) error {
			groups++
			return nil
		})
		if err != nil {
			return
		}
		read := b[:len(b)-r.Len()]
		if n := len(read); n < headBytes+12 || binary.BigEndian.Uint64(read[n-8:]) != groups || binary.BigEndian.Uint32(read[n-12:]) != 0 {
			t.Errorf("read %d groups from %x", groups, read)
		}
	})
}

// TestIDsAreNotReused applies at once what other brokers applied in turn, after messages
// and sessions were deleted. Each broker assigns new IDs, also after a restart and after
// a restored snapshot.
func TestIDsAreNotReused(t *testing.T) {
	t.Parallel()
	first, second, third := fresh(t, Options{}), fresh(t, Options{}), fresh(t, Options{})
	store(t, first, &engine.Changes{PutSessions: []engine.SessionRecord{session(1), session(2)}}, queued(1, message(5, "t")))
	whole := snap(t, first, Everything)
	for _, s := range []*opened{second, third} {
		_, err := s.Restore(t.Context(), 1, Everything, bytes.NewReader(whole), nil)
		must(t, err)
	}
	gone := []*engine.Changes{
		dequeued(1, 5), {EndedSessions: []uint64{2}},
		queued(1, message(7, "t")), dequeued(1, 7), {PutSessions: []engine.SessionRecord{session(4)}}, {EndedSessions: []uint64{4}},
	}
	must(t, second.Apply(2, gone))
	_, err := first.Restore(t.Context(), 2, Everything, bytes.NewReader(snap(t, second, Everything)), nil)
	must(t, err)
	again := reopen(t, second)
	second.file, second.Store = again.file, again.Store // what the cleanup shuts
	for name, s := range map[string]*opened{"after a restart": second, "after a snapshot": first} {
		now, err := s.Load(t.Context())
		must(t, err)
		if now.LastMessageID != 7 || now.LastSessionID != 4 {
			t.Errorf("%s the last numbers are %d and %d, want 7 and 4", name, now.LastMessageID, now.LastSessionID)
		}
	}
	later := []*engine.Changes{{PutSessions: []engine.SessionRecord{session(5)}}, queued(5, message(8, "t"))}
	must(t, second.Apply(3, later), third.Apply(3, append(gone, later...)))
	wantSame(t, second, third)
	must(t, second.Detach(t.Context()))
	now, err := second.Load(t.Context())
	must(t, err)
	if now.LastMessageID != 8 || now.LastSessionID != 5 {
		t.Errorf("alone, the last numbers are %d and %d", now.LastMessageID, now.LastSessionID)
	}
}
