package store

import (
	"slices"
	"sync/atomic"

	"signalbox/broker/bridges"
)

// Bounds of the memory for the next entries, of one queue and of all.
const (
	windowBytes = 4 << 20
	memoryBytes = 64 << 20
	slotBytes   = 256 // overhead of an entry
)

// window is a range of a queue in memory: all entries, stored and not removed, with IDs from
// inclusive, to exclusive. The queueState's mu guards it.
type window struct {
	from, to   uint64
	slots      []slot // sorted by ID
	emptySlots int    // slots with a removed entry
	bytes      int64
	memory     *atomic.Int64 // of all windows
}

// slot is an element of a window. The entry is nil if it was removed.
type slot struct {
	id    uint64
	entry *bridges.Entry
}

func cost(e *bridges.Entry) int64 { return int64(e.Size()) + slotBytes }

// index returns the index of an ID in the slots, or where it would be.
func (w *window) index(id uint64) int {
	i, _ := slices.BinarySearchFunc(w.slots, id, func(s slot, id uint64) int {
		switch {
		case s.id < id:
			return -1
		case s.id > id:
			return 1
		}
		return 0
	})
	return i
}

// entriesFrom returns entries from an ID on.
func (w *window) entriesFrom(from uint64, messages, bytes int) (list []*bridges.Entry) {
	budget := bytes
	for i := w.index(from); i < len(w.slots) && len(list) < messages; i++ {
		e := w.slots[i].entry
		if e == nil {
			continue
		}
		if budget -= e.Size(); budget < 0 && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list
}

// append appends an entry.
func (w *window) append(e *bridges.Entry) {
	w.slots = append(w.slots, slot{e.ID, e})
	w.add(cost(e))
}

func (w *window) add(bytes int64) {
	w.bytes += bytes
	w.memory.Add(bytes)
}

// remove removes an entry, if the window has it.
func (w *window) remove(id uint64) {
	i := w.index(id)
	if i == len(w.slots) || w.slots[i].id != id || w.slots[i].entry == nil {
		return
	}
	w.add(-cost(w.slots[i].entry))
	w.slots[i].entry = nil
	w.emptySlots++
	w.compact()
}

// compact deletes slots without an entry: at once at the front, elsewhere when they are the
// majority.
func (w *window) compact() {
	for len(w.slots) > 0 && w.slots[0].entry == nil {
		w.slots = w.slots[1:]
		w.emptySlots--
	}
	if w.emptySlots > 64 && w.emptySlots > len(w.slots)/2 {
		w.slots = slices.DeleteFunc(w.slots, func(s slot) bool { return s.entry == nil })
		w.emptySlots = 0
	}
}

// fits reports whether that many bytes fit.
func (w *window) fits(bytes int64) bool {
	return len(w.slots) == 0 || w.bytes+bytes <= windowBytes && w.memory.Load()+bytes <= memoryBytes
}

// evictFront discards the first entries until that many bytes fit.
func (w *window) evictFront(bytes int64) {
	n := 0
	for n < len(w.slots) && w.bytes+bytes > windowBytes {
		if e := w.slots[n].entry; e != nil {
			w.add(-cost(e))
		} else {
			w.emptySlots--
		}
		w.from = w.slots[n].id + 1
		n++
	}
	clear(w.slots[:n])
	w.slots = w.slots[n:]
}

// reset empties the window and moves it to an ID.
func (w *window) reset(at uint64) {
	w.add(-w.bytes)
	w.slots, w.emptySlots = nil, 0
	w.from, w.to = at, at
}
