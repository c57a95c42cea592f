package query

// bucket divides time into intervals, in milliseconds. A size of 0 is one
// interval for all of time.
type bucket struct{ size, offset int64 }

// of returns the start of the interval that contains a time.
func (b bucket) of(at int64) (start int64) {
	if b.size == 0 {
		return 0
	}
	into := (at - b.offset) % b.size
	if into < 0 {
		into += b.size
	}
	return at - into
}
