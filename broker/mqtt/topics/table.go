package topics

// table is a map that releases memory: it moves to a smaller map when three quarters of its
// entries were removed, which a Go map does not. The zero value is empty.
type table[K comparable, V any] struct {
	m    map[K]V
	peak int // most entries since the map was created
}

// minShrinkSize is the number of entries below which a table does not shrink.
const minShrinkSize = 64

// get returns the value of a key, or the zero value.
func (t *table[K, V]) get(key K) V { return t.m[key] }

// put sets the value of a key.
func (t *table[K, V]) put(key K, v V) {
	if t.m == nil {
		t.m = make(map[K]V)
	}
	t.m[key] = v
	t.peak = max(t.peak, len(t.m))
}

// remove deletes a key.
func (t *table[K, V]) remove(key K) {
	delete(t.m, key)
	if t.peak > minShrinkSize && len(t.m) < t.peak/4 {
		t.shrink()
	}
}

func (t *table[K, V]) shrink() {
	m := make(map[K]V, len(t.m))
	for k, v := range t.m {
		m[k] = v
	}
	t.m, t.peak = m, len(m)
}
