package db

import (
	"sync"
	"sync/atomic"
)

// maxRemembered bounds how many rows are remembered; what comes later is read
// anew each time.
const maxRemembered = 4096

// remembered are rows that nearly every request asks for, as read since the last
// write. Every write puts an empty one in its place before it returns, so nobody
// who begins to read after that sees what was there before. What a reader that
// began earlier still adds goes into the one that is thrown away.
type remembered struct {
	rows sync.Map
	size atomic.Int64
}

// The keys of remembered rows.
type (
	tokenKey  struct{ hash string }
	brokerKey struct{ projectID, id string }
	roleKey   struct{ projectID, userID string }
)

// remember gives a remembered row, or reads it. What it gives is shared: it must
// not be written to.
func remember[K comparable, V any](d *DB, key K, read func() (V, error)) (V, error) {
	m := d.remembered.Load()
	if v, ok := m.rows.Load(key); ok {
		return v.(V), nil
	}
	v, err := read()
	if err == nil && m.size.Add(1) <= maxRemembered {
		m.rows.Store(key, v)
	}
	return v, err
}
