package access

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// everyChange returns each kind of change, with each way to fill it.
func everyChange() []dynsec.Change {
	text, empty := "Ä", ""
	roles := []broker.RoleRef{{RoleName: "r", Priority: 5}, {RoleName: "s", Priority: broker.NoPriority}}
	return []dynsec.Change{
		dynsec.Clear{},
		dynsec.PutRole{RoleRecord: dynsec.RoleRecord{RoleName: "r", TextName: &text, AllowWildcardSubs: true, ACLs: []broker.ACL{
			{ACLType: broker.PublishClientSend, Topic: "a/#", Priority: -100_000, Allow: true},
			{ACLType: broker.SubscribeLiteral, Topic: "b", Priority: 100_000}}}},
		dynsec.PutRole{RoleRecord: dynsec.RoleRecord{RoleName: "s", TextDescription: &empty}},
		dynsec.PutGroup{GroupRecord: dynsec.GroupRecord{GroupName: "g", TextName: &empty, TextDescription: &text, Roles: roles}},
		dynsec.PutClient{ClientRecord: dynsec.ClientRecord{Username: "u", ClientID: "id", TextName: &text, Disabled: true,
			HasPassword: true, Roles: roles, Groups: []broker.GroupRef{{GroupName: "g", Priority: -1}}}, Password: &text},
		dynsec.PutClient{ClientRecord: dynsec.ClientRecord{Username: "v", TextDescription: &empty}, Password: &empty},
		dynsec.PutClient{ClientRecord: dynsec.ClientRecord{Username: "w", HasPassword: true}},
		dynsec.DropClient{Username: "v"}, dynsec.DropGroup{GroupName: "g"}, dynsec.DropRole{RoleName: "s"},
		dynsec.PutDefaults{Defaults: dynsec.Defaults{PublishClientSend: true, Unsubscribe: true}},
		dynsec.PutAnonymousGroup{GroupName: "g"}, dynsec.PutAnonymousGroup{},
		dynsec.PutChangeIndex{Index: 8},
	}
}

func TestChangeSetRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []changeSet{
		{}, {base: 3, disconnects: []dynsec.Disconnect{{Username: "u"}, {Anonymous: true}}}, {id: newChangeID(), base: 7, changes: everyChange()},
	} {
		got, err := decodeChangeSet(want.encode())
		must(t, err)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(changeSet{})); diff != "" {
			t.Errorf("-before +after:\n%s", diff)
		}
	}
}

// TestChangeSetMovesTheIndex refuses sets after which a state could not be distinguished
// from the one before.
func TestChangeSetMovesTheIndex(t *testing.T) {
	t.Parallel()
	for _, changes := range [][]dynsec.Change{
		{dynsec.Clear{}}, {dynsec.PutChangeIndex{Index: 9}, dynsec.Clear{}}, {dynsec.Clear{}, dynsec.PutChangeIndex{Index: 8}},
	} {
		if _, err := decodeChangeSet(changeSet{base: 8, changes: changes}.encode()); !errors.Is(err, errDamaged) {
			t.Errorf("%+v: got %v, want %v", changes, err, errDamaged)
		}
	}
}

// TestPartialChangeSet expects that no part of a set, and nothing longer, is accepted.
func TestPartialChangeSet(t *testing.T) {
	t.Parallel()
	b := changeSet{base: 7, changes: everyChange(), disconnects: []dynsec.Disconnect{{Username: "u"}}}.encode()
	for i := range b {
		if _, err := decodeChangeSet(b[:i]); !errors.Is(err, errDamaged) {
			t.Errorf("%d bytes of %d: got %v, want %v", i, len(b), err, errDamaged)
		}
	}
	if _, err := decodeChangeSet(append(b, 0)); !errors.Is(err, errDamaged) {
		t.Errorf("one byte more: got %v, want %v", err, errDamaged)
	}
}

// FuzzChangeSet expects that what is accepted has one encoding only, and is refused by the
// state or applied, without panic.
func FuzzChangeSet(f *testing.F) {
	f.Add(changeSet{base: 7, changes: everyChange(), disconnects: []dynsec.Disconnect{{Username: "u"}, {Anonymous: true}}}.encode())
	f.Add(changeSet{}.encode())
	head := append([]byte{format}, make([]byte, len(changeID{}))...)
	f.Add(append(head[:len(head):len(head)], 0, 1, kindPutClient, 4, 0xff, 0xff, 0xff, 0xff, 0x0f))
	f.Add(append(head[:len(head):len(head)], 0x80, 0x00))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeChangeSet(b)
		if err != nil {
			if !errors.Is(err, errDamaged) && !errors.Is(err, errFormat) {
				t.Errorf("the failure is of no kind: %v", err)
			}
			return
		}
		if again := s.encode(); !bytes.Equal(b, again) {
			t.Errorf("%x became %x", b, again)
		}
		if next, err := dynsec.NewState().Replay(s.changes); err == nil && len(s.changes) > 0 && next.ChangeIndex() <= s.base {
			t.Error("the change index did not move")
		}
	})
}

// FuzzSnapshot reads arbitrary records with a valid checksum.
func FuzzSnapshot(f *testing.F) {
	c := fresh(f)
	d := generator{rand.New(rand.NewPCG(1, 7))}
	f.Add([]byte{format, 0})
	f.Add([]byte{format, 0xff, 0xff, 0xff, 0xff, 0x01, kindPutRole})
	for range 40 {
		c.Handle(f.Context(), d.request(f))
	}
	b := bytesOf(f, c)
	f.Add(b[:len(b)-crc32.Size])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = binary.BigEndian.AppendUint32(b[:len(b):len(b)], crc32.Checksum(b, castagnoli))
		changes, err := readSnapshot(bytes.NewReader(b))
		if err != nil {
			return
		}
		state, err := dynsec.Load(records(changes))
		if err == nil && state.ChangeIndex() < 0 {
			t.Error("a negative change index")
		}
	})
}
