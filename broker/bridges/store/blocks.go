package store

import (
	"cmp"
	"slices"
)

// Bound of what is known by heart of one queue's blocks; of others it is read
// from the file.
const knownBlocks = 1024

// block is what the committer knows of a row: which entries it has, how large
// they are, and which were removed.
type block struct {
	first  uint64 // the ID of the first entry
	sizes  []uint32
	gone   holes
	marked bool // there is a row of removed
}

// holes are what was removed of a block.
type holes struct {
	which        []byte // a bit for each entry; nil where nothing was
	count, bytes int64
}

func (h *holes) has(i int) bool { return i/8 < len(h.which) && h.which[i/8]&(1<<(i%8)) != 0 }

func (b *block) end() uint64 { return b.first + uint64(len(b.sizes)) }

func (b *block) holds(id uint64) bool { return b.first <= id && id < b.end() }

// blocks are those of a queue that are known by heart, in order. There may be
// others between them.
type blocks []*block

// place gives where a block is that begins with an ID, or would be.
func (l blocks) place(first uint64) (int, bool) {
	return slices.BinarySearchFunc(l, first, func(b *block, first uint64) int { return cmp.Compare(b.first, first) })
}

// find gives the block that holds an ID, nil where it is not known.
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

// learn adds a block. Where too many are known, the last one is forgotten, as it
// is needed last.
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

// cut is what a transaction removes of a block.
type cut struct {
	*block
	gone    holes
	changed bool
	damaged bool // the block goes whole
}

func newCut(b *block) *cut {
	c := &cut{block: b, gone: b.gone}
	c.gone.which = make([]byte, (len(b.sizes)+7)/8)
	copy(c.gone.which, b.gone.which)
	return c
}

// remove takes an entry out and gives its size. It answers false where it was
// gone already.
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

// empty tells whether nothing is left of the block.
func (c *cut) empty() bool { return c.damaged || c.gone.count == int64(len(c.sizes)) }
