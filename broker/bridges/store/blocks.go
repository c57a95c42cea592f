package store

import (
	"cmp"
	"slices"
)

// knownBlocks is the maximum number of cached blocks of a queue; others are read from the file.
const knownBlocks = 1024

// block is the committer's cached state of a row: its entries, their sizes, and which of them
// were removed.
type block struct {
	first  uint64 // the ID of the first entry
	sizes  []uint32
	gone   holes
	marked bool // a row of removed exists
}

// holes are the removed entries of a block.
type holes struct {
	which        []byte // one bit per entry; nil for none
	count, bytes int64
}

func (h *holes) has(i int) bool { return i/8 < len(h.which) && h.which[i/8]&(1<<(i%8)) != 0 }

func (b *block) end() uint64 { return b.first + uint64(len(b.sizes)) }

func (b *block) holds(id uint64) bool { return b.first <= id && id < b.end() }

// blocks are the cached blocks of a queue, in order. Others may be between them.
type blocks []*block

// place returns the index of the block that begins with an ID, or where it would be.
func (l blocks) place(first uint64) (int, bool) {
	return slices.BinarySearchFunc(l, first, func(b *block, first uint64) int { return cmp.Compare(b.first, first) })
}

// find returns the block that holds an ID, nil if it is not cached.
func (l blocks) find(id uint64) *block {
	i, exact := l.place(id)
	if !exact {
		i--
	}
	if i < 0 || i == len(l) || !l[i].holds(id) {
		return nil
	}
	return l[i]
}

// learn caches a block. If there are too many, the last one is evicted, as it is needed last.
func (l *blocks) learn(b *block) {
	i, known := l.place(b.first)
	switch {
	case known:
		(*l)[i] = b
	case i == len(*l) && i >= knownBlocks:
	default:
		*l = slices.Insert(*l, i, b)
		*l = (*l)[:min(len(*l), knownBlocks)]
	}
}

// cut is the change that a transaction makes to a block.
type cut struct {
	*block
	gone    holes
	changed bool
	damaged bool // the whole block is deleted
}

func newCut(b *block) *cut {
	c := &cut{block: b, gone: b.gone}
	c.gone.which = make([]byte, (len(b.sizes)+7)/8)
	copy(c.gone.which, b.gone.which)
	return c
}

// remove removes an entry and returns its size. It reports false if that was removed before.
func (c *cut) remove(i int) (size int64, ok bool) {
	if c.gone.has(i) {
		return 0, false
	}
	size = int64(c.sizes[i])
	c.gone.which[i/8] |= 1 << (i % 8)
	c.gone.count++
	c.gone.bytes += size
	c.changed = true
	return size, true
}

// empty reports whether the block has no entries left.
func (c *cut) empty() bool { return c.damaged || c.gone.count == int64(len(c.sizes)) }
