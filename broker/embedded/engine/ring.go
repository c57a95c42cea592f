package engine

// ring is a queue in a circular buffer. The zero value is empty. It gives its
// buffer back when it runs empty after having been large.
type ring[T any] struct {
	buf   []T // its length is a power of two, or 0
	first int
	n     int
}

// keepRing is the size of a buffer that is kept while the ring is empty.
const keepRing = 16

func (r *ring[T]) len() int { return r.n }

// at gives the i-th element, counted from the front.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.first+i)&(len(r.buf)-1)] }

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	*r.at(r.n - 1) = v
}

// pop takes the first element out.
func (r *ring[T]) pop() T {
	p := r.at(0)
	v := *p
	var zero T
	*p = zero
	r.first = (r.first + 1) & (len(r.buf) - 1)
	r.n--
	if r.n == 0 && len(r.buf) > keepRing {
		r.buf, r.first = nil, 0
	}
	return v
}

func (r *ring[T]) grow() {
	bigger := make([]T, max(4, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.buf, r.first = bigger, 0
}

func (r *ring[T]) clear() { *r = ring[T]{} }
