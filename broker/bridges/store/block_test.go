package store

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// encode returns a block.
func encode(records ...record) []byte {
	e := &encoder{}
	e.reset()
	for _, r := range records {
		e.add(r)
	}
	return bytes.Clone(e.seal())
}

// resealed returns a block with its correct checksum.
func resealed(b []byte) []byte {
	if len(b) >= storage.BlockHeader {
		storage.SealBlock(b)
	}
	return b
}

// everyField returns entries that have every field, and few fields, in turn.
func everyField() []record {
	full := bridges.Entry{Mapping: "mapping", Attempts: 3, Message: messaging.Message{
		Topic: "a/b", Payload: []byte("payload"), Properties: []byte{3, 0, 1, 'x'}, QoS: 2, Retain: true, At: 1_800_000_000_000, ExpiresAt: 1_800_000_060_000, ClientID: "client",
	}}
	earlier, extreme := full, full
	earlier.At, earlier.ExpiresAt, earlier.Topic = 5, 4, "c"
	extreme.At, extreme.ExpiresAt, extreme.Attempts, extreme.Payload = math.MinInt64, math.MaxInt64, math.MaxInt32, nil
	return []record{{&bridges.Entry{}, 0}, {&full, 7}, {&full, 0}, {&earlier, 1<<idBits - 1}, {&extreme, 0}, {&bridges.Entry{}, 0}}
}

// TestBlock decodes what was encoded.
func TestBlock(t *testing.T) {
	t.Parallel()
	want := everyField()
	got, err := decode(encode(want...), int64(len(want)), 0)
	must(t, err)
	wantRecords(t, got, want)
}

func wantRecords(t *testing.T, got, want []record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i := range want {
		w, g := *want[i].Entry, *got[i].Entry
		if w.Payload == nil {
			w.Payload = []byte{}
		}
		if diff := cmp.Diff(w, g); diff != "" || want[i].origin != got[i].origin {
			t.Errorf("record %d, origin %d, want %d (-want +got):\n%s", i, got[i].origin, want[i].origin, diff)
		}
	}
}

// TestEveryField checks that every field of a message is stored, except those that the queue sets
// and those that are valid only in this process.
func TestEveryField(t *testing.T) {
	t.Parallel()
	full := everyField()[1].Entry
	for i, f := range reflect.VisibleFields(reflect.TypeFor[bridges.Entry]()) {
		given := map[string]bool{"ID": true, "MessageID": true, "Serial": true}[f.Name]
		if reflect.ValueOf(*full).FieldByIndex(f.Index).IsZero() != given {
			t.Errorf("field %d, %s, is not tested", i, f.Name)
		}
	}
}

// TestDamagedBlock checks the error for each kind of damage.
func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	good := encode(everyField()...)
	for name, c := range map[string]struct {
		damage func(b []byte) []byte
		want   error
	}{
		"nothing":      {func([]byte) []byte { return nil }, storage.ErrBlockVersion},
		"version":      {func(b []byte) []byte { b[0]++; return b }, storage.ErrBlockVersion},
		"bit":          {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, storage.ErrBlockChecksum},
		"end":          {func(b []byte) []byte { return b[:len(b)-1] }, storage.ErrBlockChecksum},
		"sealed end":   {func(b []byte) []byte { return resealed(b[:len(b)-1]) }, storage.ErrBlockFormat},
		"one too many": {func(b []byte) []byte { return resealed(append(b, b[storage.BlockHeader:]...)) }, storage.ErrBlockFormat},
		"flags":        {func([]byte) []byte { return resealed(append(make([]byte, storage.BlockHeader), 0xff, 0xff, 0x7f)) }, storage.ErrBlockFormat},
		"QoS":          {func([]byte) []byte { return resealed(append(make([]byte, storage.BlockHeader), 3, 0, 0, 0, 0, 0)) }, storage.ErrBlockFormat},
		"length": {func([]byte) []byte {
			return resealed(append(make([]byte, storage.BlockHeader), 0, 0xff, 0xff, 0xff, 0xff, 0x0f))
		}, storage.ErrBlockFormat},
	} {
		if _, err := decode(c.damage(bytes.Clone(good)), 6, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestBlockFits checks that a block ends when it is full.
func TestBlockFits(t *testing.T) {
	t.Parallel()
	e := &encoder{}
	e.reset()
	if !e.fits(10 * blockBytes) {
		t.Error("one entry does not fit, however large")
	}
	large := entry(1)
	large.Payload = []byte(strings.Repeat("x", blockBytes/2))
	e.add(record{Entry: &large})
	if e.fits(blockBytes/2) || !e.fits(1000) {
		t.Error("does not end at its bound of bytes")
	}
	e.reset()
	for range blockEntries {
		small := bridges.Entry{}
		e.add(record{Entry: &small})
	}
	if e.fits(0) {
		t.Error("does not end at its bound of entries")
	}
}

// FuzzDecode decodes arbitrary bytes, and encodes the result again.
func FuzzDecode(f *testing.F) {
	for _, r := range everyField() {
		f.Add(encode(r), int64(1))
	}
	f.Add(encode(everyField()...), int64(6))
	f.Add(make([]byte, storage.BlockHeader), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, count int64) {
		records, err := decode(resealed(bytes.Clone(b)), count, 0)
		if err != nil {
			return
		}
		again, err := decode(encode(records...), count, 0)
		must(t, err)
		wantRecords(t, again, records)
	})
}
