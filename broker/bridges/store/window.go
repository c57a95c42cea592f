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
// inclusive, to exclusive. The journal's mu guards it.
type window struct {
	from, to uint64
	slots    []slot // sorted by ID
	dead     int    // slots with a removed entry
	bytes    int64
	memory   *atomic.Int64 // of all windows
}

// slot is an element of a window. The entry is nil if it was removed.
type slot struct {
	id    uint64
	entry *bridges.Entry
}

func cost(e *bridges.Entry) int64 { return int64(e.Size()) + slotBytes }

// place returns the index of an ID in the slots, or where it would be.
func (w *window) place(id uint64) int {
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

// pick returns entries from an ID on.
func (w *window) pick(from uint64, messages, bytes int) (list []*bridges.Entry) {
	room := bytes
	for i := w.place(from); i < len(w.slots) && len(list) < messages; i++ {
		e := w.slots[i].entry
		if e == nil {
			continue
		}
		if room -= e.Size(); room < 0 && len(list) > 0 {
			break
		}
		list = append(list, e)
	}
	return list
}

// grow appends an entry.
func (w *window) grow(e *bridges.Entry) {
	w.slots = append(w.slots, slot{e.ID, e})
	w.add(cost(e))
}

func (w *window) add(bytes int64) {
	w.bytes += bytes
	w.memory.Add(bytes)
}

// remove removes an entry, if the window has it.
func (w *window) remove(id uint64) {
	i := w.place(id)
	if i == len(w.slots) || w.slots[i].id != id || w.slots[i].entry == nil {
		return
	}
	w.add(-cost(w.slots[i].entry))
	w.slots[i].entry = nil
	w.dead++
	w.compact()
}

// compact deletes slots without an entry: at once at the front, elsewhere when they are the
// majority.
func (w *window) compact() {
	for len(w.slots) > 0 && w.slots[0].entry == nil {
		w.slots = w.slots[1:]
		w.dead--
	}
	if w.dead > 64 && w.dead > len(w.slots)/2 {
		w.slots = slices.DeleteFunc(w.slots, func(s slot) bool { return s.entry == nil })
		w.dead = 0
	}
}

// takes reports whether that many bytes fit.
func (w *window) takes(bytes int64) bool {
	return len(w.slots) == 0 || w.bytes+bytes <= windowBytes && w.memory.Load()+bytes <= memoryBytes
}

// shrink discards the first entries until that many bytes fit.
func (w *window) shrink(bytes int64) {
	n := 0
	for n < len(w.slots) && w.bytes+bytes > windowBytes {
		if e := w.slots[n].entry; e != nil {
			w.add(-cost(e))
		} else {
			w.dead--
		}
		w.from = w.slots[n].id + 1
		n++
	}
	clear(w.slots[:n])
	w.slots = w.slots[n:]
}

// restart empties the window and moves it to an ID.
func (w *window) restart(at uint64) {
	w.add(-w.bytes)
	w.slots, w.dead = nil, 0
	w.from, w.to = at, at
}
