package db

import (
	"sync"
	"sync/atomic"
)

// maxCachedRows bounds how many rows are cached; what comes later is read each
// time.
const maxCachedRows = 4096

// rowCache holds rows that nearly every request needs, as read since the last
// write. Every write replaces it by an empty one before it returns, so a read that
// begins after that does not see older rows. What a read that began earlier still
// adds goes into the cache that was replaced.
type rowCache struct {
	rows sync.Map
	size atomic.Int64
}

// The keys of cached rows.
type (
	tokenKey   struct{ hash string }
	sessionKey struct{ hash string }
	projectKey struct{ id string }
	brokerKey  struct{ projectID, id string }
	roleKey    struct{ projectID, userID string }

	allProjectsKey struct{}
	projectsOfKey  struct{ userID string }
)

// cached returns a cached row, or reads it. What it returns is shared: it must
// not be written to.
func cached[K comparable, V any](d *DB, key K, read func() (V, error)) (V, error) {
	return cachedAs(d, key, func(V) int { return 1 }, read)
}

// cachedList is cached for a list of rows.
func cachedList[K comparable, V any](d *DB, key K, read func() ([]V, error)) ([]V, error) {
	return cachedAs(d, key, func(list []V) int { return 1 + len(list) }, read)
}

func cachedAs[K comparable, V any](d *DB, key K, rows func(V) int, read func() (V, error)) (V, error) {
	m := d.cache.Load()
	if v, ok := m.rows.Load(key); ok {
		return v.(V), nil
	}
	v, err := read()
	if err == nil && m.size.Add(int64(rows(v))) <= maxCachedRows {
		m.rows.Store(key, v)
	}
	return v, err
}
