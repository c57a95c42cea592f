package mesh

// ring is a FIFO queue that reuses its memory. The zero value is empty.
type ring[T any] struct {
	items []T // the length is a power of two, or zero
	head  int
	count int
}

func (r *ring[T]) len() int { return r.count }

// at returns a pointer to item i, counted from the first.
func (r *ring[T]) at(i int) *T { return &r.items[(r.head+i)&(len(r.items)-1)] }

func (r *ring[T]) push(item T) {
	if r.count == len(r.items) {
		r.resize(max(16, 2*len(r.items)))
	}
	r.count++
	*r.at(r.count - 1) = item
}

func (r *ring[T]) pop() T {
	first := r.at(0)
	item := *first
	var none T
	*first = none
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.count--
	if len(r.items) > 1024 && r.count < len(r.items)/8 {
		r.resize(len(r.items) / 4)
	}
	return item
}

func (r *ring[T]) resize(size int) {
	items := make([]T, size)
	for i := range r.count {
		items[i] = *r.at(i)
	}
	r.items, r.head = items, 0
}
