package engine

import (
	"encoding/binary"
	"hash/maphash"
)

// maxDedup bounds how many changes of retained messages are remembered.
const maxDedup = 4096

// dedupCache remembers the latest messages that the log has brought, by their hash: one
// that is forwarded from another node more slowly than by way of the log is not shown
// any more, as there may be a newer one.
type dedupCache struct {
	seed  maphash.Seed
	known map[uint64]struct{}
	order [maxDedup]uint64
	next  int
}

func newDedupCache() *dedupCache {
	return &dedupCache{seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
}

// hash distinguishes messages that are published.
func (b *dedupCache) hash(m *Message) uint64 {
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
func (b *dedupCache) add(m *Message) {
	h := b.hash(m)
	if _, had := b.known[h]; had {
		return
	}
	delete(b.known, b.order[b.next])
	b.known[h], b.order[b.next] = struct{}{}, h
	b.next = (b.next + 1) % maxDedup
}

func (b *dedupCache) has(m *Message) bool {
	_, has := b.known[b.hash(m)]
	return has
}
