package store

import (
	"cmp"
	"slices"
)

// maxCachedBlocks is the maximum number of cached blocks of a queue; others are read from the file.
const maxCachedBlocks = 1024

// block is the committer's cached state of a row: its entries, their sizes, and which of them
// were removed.
type block struct {
	first         uint64 // the ID of the first entry
	sizes         []uint32
	removed       gaps
	hasRemovedRow bool // a row of removed exists
}

// gaps are the removed entries of a block.
type gaps struct {
	bitmap       []byte // one bit per entry; nil for none
	count, bytes int64
}

func (h *gaps) has(i int) bool { return i/8 < len(h.bitmap) && h.bitmap[i/8]&(1<<(i%8)) != 0 }

func (b *block) end() uint64 { return b.first + uint64(len(b.sizes)) }

func (b *block) holds(id uint64) bool { return b.first <= id && id < b.end() }

// blocks are the cached blocks of a queue, in order. Others may be between them.
type blocks []*block

// index returns the index of the block that begins with an ID, or where it would be.
func (l blocks) index(first uint64) (int, bool) {
	return slices.BinarySearchFunc(l, first, func(b *block, first uint64) int { return cmp.Compare(b.first, first) })
}

// find returns the block that holds an ID, nil if it is not cached.
func (l blocks) find(id uint64) *block {
	i, exact := l.index(id)
	if !exact {
		i--
	}
	if i < 0 || i == len(l) || !l[i].holds(id) {
		return nil
	}
	return l[i]
}

// cache caches a block. If there are too many, the last one is evicted, as it is needed last.
func (l *blocks) cache(b *block) {
	i, known := l.index(b.first)
	switch {
	case known:
		(*l)[i] = b
	case i == len(*l) && i >= maxCachedBlocks:
	default:
		*l = slices.Insert(*l, i, b)
		*l = (*l)[:min(len(*l), maxCachedBlocks)]
	}
}

// blockChange is the change that a transaction makes to a block.
type blockChange struct {
	*block
	removed gaps
	changed bool
	damaged bool // the whole block is deleted
}

func newBlockChange(b *block) *blockChange {
	c := &blockChange{block: b, removed: b.removed}
	c.removed.bitmap = make([]byte, (len(b.sizes)+7)/8)
	copy(c.removed.bitmap, b.removed.bitmap)
	return c
}

// remove removes an entry and returns its size. It reports false if that was removed before.
func (c *blockChange) remove(i int) (size int64, ok bool) {
	if c.removed.has(i) {
		return 0, false
	}
	size = int64(c.sizes[i])
	c.removed.bitmap[i/8] |= 1 << (i % 8)
	c.removed.count++
	c.removed.bytes += size
	c.changed = true
	return size, true
}

// empty reports whether the block has no entries left.
func (c *blockChange) empty() bool { return c.damaged || c.removed.count == int64(len(c.sizes)) }
