package topics

// table is a map that gives its memory back. A Go map keeps the room of the
// most entries it ever had; a table moves to a smaller map when three quarters
// of them are gone. Its zero value is empty.
type table[K comparable, V any] struct {
	m    map[K]V
	peak int // most entries since the map was made
}

// roomy is the number of entries whose room is not worth giving back.
const roomy = 64

// get gives the value of a key, the zero value if it has none.
func (t *table[K, V]) get(key K) V { return t.m[key] }

// put sets the value of a key.
func (t *table[K, V]) put(key K, v V) {
	if t.m == nil {
		t.m = make(map[K]V)
	}
	t.m[key] = v
	t.peak = max(t.peak, len(t.m))
}

// remove forgets a key.
func (t *table[K, V]) remove(key K) {
	delete(t.m, key)
	if t.peak > roomy && len(t.m) < t.peak/4 {
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
