package console

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

// uploads keeps documents between their check and their import, in memory: a browser
// does not send a file twice that was chosen once, and a document with password hashes
// must not stand in a page.
type uploads struct {
	mu   sync.Mutex
	kept []*upload // the oldest first
}

// upload is a document that a user has sent for a broker.
type upload struct {
	id, user, broker string
	document         []byte
}

// The bounds of uploads: a user has one at most.
const (
	uploadLifetime  = 10 * time.Minute
	maxUploads      = 8
	maxUploadsBytes = 128 << 20 // two of the largest
)

// keep stores a document and returns its id. Earlier ones of the user, and the oldest
// ones beyond the bounds, are dropped.
func (u *uploads) keep(user, broker string, document []byte) string {
	added := &upload{id: rand.Text(), user: user, broker: broker, document: document}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = slices.DeleteFunc(u.kept, func(k *upload) bool { return k.user == user })
	u.kept = append(u.kept, added)
	size := 0
	for _, k := range u.kept {
		size += len(k.document)
	}
	for len(u.kept) > 1 && (len(u.kept) > maxUploads || size > maxUploadsBytes) {
		size -= len(u.kept[0].document)
		u.kept = slices.Delete(u.kept, 0, 1)
	}
	id := added.id // the timer must not keep the document
	time.AfterFunc(uploadLifetime, func() { u.drop(id) })
	return id
}

// get returns a document by its id, if this user has sent it for this broker.
func (u *uploads) get(id, user, broker string) (document []byte, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, k := range u.kept {
		if k.id == id && k.user == user && k.broker == broker {
			return k.document, true
		}
	}
	return nil, false
}

// drop forgets a document.
func (u *uploads) drop(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = slices.DeleteFunc(u.kept, func(k *upload) bool { return k.id == id })
}

// dropUser forgets the document of a user.
func (u *uploads) dropUser(user string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept = slices.DeleteFunc(u.kept, func(k *upload) bool { return k.user == user })
}
