package engine

import (
	"encoding/binary"
	"hash/maphash"
)

// maxBrought bounds how many changes of retained messages are remembered.
const maxBrought = 4096

// brought remembers the latest messages that the log has brought, by their hash: one
// that crosses from another node more slowly than by way of the log is not shown
// any more, as there may be a newer one.
type brought struct {
	seed  maphash.Seed
	known map[uint64]struct{}
	order [maxBrought]uint64
	next  int
}

func newBrought() *brought { return &brought{seed: maphash.MakeSeed(), known: map[uint64]struct{}{}} }

// hash tells messages apart that are published.
func (b *brought) hash(m *Message) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	var head [24]byte
	binary.BigEndian.PutUint64(head[:], uint64(m.CreatedAt))
	binary.BigEndian.PutUint64(head[8:], uint64(len(m.Topic)))
	binary.BigEndian.PutUint64(head[16:], uint64(len(m.Publisher)))
	h.Write(head[:])           //nolint:errcheck // never fails
	h.WriteString(m.Topic)     //nolint:errcheck // never fails
	h.WriteString(m.Publisher) //nolint:errcheck // never fails
	h.Write(m.Payload)         //nolint:errcheck // never fails
	return h.Sum64()
}

// add remembers a message, in place of the one before all others.
func (b *brought) add(m *Message) {
	h := b.hash(m)
	if _, had := b.known[h]; had {
		return
	}
	delete(b.known, b.order[b.next])
	b.known[h], b.order[b.next] = struct{}{}, h
	b.next = (b.next + 1) % maxBrought
}

func (b *brought) has(m *Message) bool {
	_, has := b.known[b.hash(m)]
	return has
}
