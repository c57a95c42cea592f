package engine

import "math/bits"

// ring is a queue in a circular buffer. The zero value is empty. A large buffer is released
// when the ring is empty.
type ring[T any] struct {
	buf   []T // its length is a power of two, or 0
	first int
	n     int
}

// keepRing is the size of the largest buffer that an empty ring keeps. keepBusyRing is the
// same for a ring whose owner calls trim from time to time: otherwise a queue that is often
// empty would allocate again and again.
const (
	keepRing     = 16
	keepBusyRing = 256
)

func (r *ring[T]) len() int { return r.n }

// at returns the i-th element, counted from the front.
func (r *ring[T]) at(i int) *T { return &r.buf[(r.first+i)&(len(r.buf)-1)] }

func (r *ring[T]) push(v T) { *r.add() = v }

// add adds a zero element and returns it.
func (r *ring[T]) add() *T {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.n++
	return r.at(r.n - 1)
}

// pop removes the first element and returns it.
func (r *ring[T]) pop() T {
	v := *r.at(0)
	r.drop(keepRing)
	return v
}

// drop removes the first element. A buffer of more than keep elements is released when the
// ring is empty.
func (r *ring[T]) drop(keep int) {
	var zero T
	*r.at(0) = zero
	r.first = (r.first + 1) & (len(r.buf) - 1)
	r.n--
	r.trim(keep)
}

// trim releases the buffer of an empty ring if it has more than keep elements.
func (r *ring[T]) trim(keep int) {
	if r.n == 0 && len(r.buf) > keep {
		r.buf, r.first = nil, 0
	}
}

func (r *ring[T]) grow() {
	bigger := make([]T, max(4, 2*len(r.buf)))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.buf, r.first = bigger, 0
}

// reserve allocates a buffer for n elements, if the ring is empty.
func (r *ring[T]) reserve(n int) {
	if r.n == 0 && n > len(r.buf) {
		r.buf, r.first = make([]T, 1<<bits.Len(uint(n-1))), 0
	}
}

func (r *ring[T]) clear() { *r = ring[T]{} }
