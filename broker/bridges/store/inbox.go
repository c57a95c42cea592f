package store

import "sync"

// Bounds of one transaction, in entries and bytes, and of what may be handed over
// and not be stored before entries that nobody waits for are dropped, in bytes.
const (
	groupItems  = 4096
	groupWeight = 4 << 20
	roomWeight  = 64 << 20
	itemWeight  = 256 // of an item beside its message
)

// item is what was handed over at a time: an entry, or a task that is done alone.
type item struct {
	journal *journal
	record  record
	size    int64 // as the message counts against bounds
	settle  func(error)
	task    func(*committer)
}

func (i *item) weight() int { return itemWeight + int(i.size) }

// inbox holds what was handed over, in order, and which journals have something
// to be removed.
type inbox struct {
	wake chan struct{} // filled when there is something to do
	room int           // the bound of weight

	mu      sync.Mutex
	waiting []item
	head    int // of waiting; those before were taken
	touched []*journal
	weight  int // handed over and not done, in bytes
	closed  bool
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1), room: roomWeight} }

// put hands over an entry. It answers full where there is no room for one that
// nobody waits for; those that somebody waits for are bounded by who waits.
func (b *inbox) put(i item) (full, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, true
	case b.weight >= b.room && i.settle == nil && i.task == nil:
		return true, false
	}
	b.weight += i.weight()
	b.waiting = append(b.waiting, i)
	b.rouse()
	return false, false
}

// touch has a journal looked at for what is to be removed.
func (b *inbox) touch(j *journal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.touched = append(b.touched, j)
	b.rouse()
}

// take gives what fits into one transaction: some entries, or one task, or
// nothing where nothing waits; and all journals that were touched.
func (b *inbox) take() (group []item, touched []*journal, weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	touched, b.touched = b.touched, nil
	end := b.head
	for end < len(b.waiting) && end-b.head < groupItems && weight < groupWeight {
		if b.waiting[end].task != nil && end > b.head {
			break
		}
		weight += b.waiting[end].weight()
		end++
		if b.waiting[end-1].task != nil {
			break
		}
	}
	group = append(group, b.waiting[b.head:end]...)
	clear(b.waiting[b.head:end])
	b.head = end
	b.compact()
	return group, touched, weight
}

// compact lets go of what was taken, with mu held.
func (b *inbox) compact() {
	if b.head >= len(b.waiting)/2 {
		n := copy(b.waiting, b.waiting[b.head:])
		clear(b.waiting[n:])
		b.waiting, b.head = b.waiting[:n], 0
	}
}

// done gives back the room of what was taken.
func (b *inbox) done(weight int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.weight -= weight
}

// close refuses what comes from now on.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.rouse()
}

// ended tells whether the inbox is closed and empty.
func (b *inbox) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && b.head == len(b.waiting) && len(b.touched) == 0
}

func (b *inbox) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
