package engine

import (
	"encoding/binary"
	"hash/maphash"
)

// maxDedup bounds the entries of a dedupCache.
const maxDedup = 4096

// dedupCache has the hashes of the latest retained messages that the log has delivered. A
// message that is forwarded from another node after the log has delivered it is not shown,
// because there may be a newer one.
type dedupCache struct {
	seed  maphash.Seed
	known map[uint64]struct{}
	order [maxDedup]uint64
	next  int
}

func newDedupCache() *dedupCache {
	return &dedupCache{seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
}

// hash returns a hash of what distinguishes one publish from another.
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

// add adds a message, in place of the oldest.
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
