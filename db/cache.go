package db

import (
	"sync"
	"sync/atomic"
)

// maxCachedRows bounds how many rows are cached, and how many are in cached lists; what comes
// later is read each time.
const maxCachedRows = 4096

// rowCache holds rows that nearly every request needs, as read since the last
// write. Every write replaces it by an empty one before it returns, so a read that
// begins after that does not see older rows. What a read that began earlier still
// adds goes into the cache that was replaced.
type rowCache struct {
	rows   sync.Map
	size   atomic.Int64
	listed atomic.Int64 // rows in lists
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
	return cachedAs(d, key, func(m *rowCache, _ V) bool { return m.size.Add(1) <= maxCachedRows }, read)
}

// cachedList is cached for a list of rows. Lists do not take the place of single rows.
func cachedList[K comparable, V any](d *DB, key K, read func() ([]V, error)) ([]V, error) {
	return cachedAs(d, key, func(m *rowCache, list []V) bool {
		n := int64(1 + len(list))
		if m.listed.Add(n) > maxCachedRows {
			m.listed.Add(-n)
			return false
		}
		return true
	}, read)
}

func cachedAs[K comparable, V any](d *DB, key K, fits func(*rowCache, V) bool, read func() (V, error)) (V, error) {
	m := d.cache.Load()
	if v, ok := m.rows.Load(key); ok {
		return v.(V), nil
	}
	v, err := read()
	if err == nil && fits(m, v) {
		m.rows.Store(key, v)
	}
	return v, err
}
