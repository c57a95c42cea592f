// Package pbkdf2 derives keys from passwords with PBKDF2 (RFC 8018, section 5.2) and HMAC-SHA-512. The keys of
// several callers are derived side by side where the processor has vector registers for it, in a
// fraction of the time that they would take one after the other.
package pbkdf2

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"runtime"
	"sync"
)

//go:generate go run ./generate

// Size is the length of a key in bytes.
const Size = sha512.Size

// Callers returns how many callers keep all processors busy: those whose keys are derived side by side, and as many
// who wait, so that the next batch is full. More callers only wait longer.
func Callers() int {
	if lanes == 1 {
		return runtime.GOMAXPROCS(0)
	}
	return 2 * lanes * runtime.GOMAXPROCS(0)
}

// Key derives a key of a password, with at least one iteration. It waits while other callers use all processors. Its
// errors are those of crypto/pbkdf2.
func Key(password, salt []byte, iterations int) ([]byte, error) {
	c := &call{password: password, salt: salt, iterations: iterations}
	if lanes == 1 {
		c.derive()
		return c.key, c.err
	}
	c.done = make(chan struct{})
	if shared.add(c) {
		shared.work(c)
	}
	<-c.done
	return c.key, c.err
}

// call is a call of Key.
type call struct {
	password, salt []byte
	iterations     int
	key            []byte
	err            error
	done           chan struct{} // closed once key or err is set
}

// derive derives the key alone.
func (c *call) derive() {
	c.key, c.err = pbkdf2.Key(sha512.New, string(c.password), c.salt, c.iterations, Size)
}

func (c *call) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// queue has the calls that wait, in order. One goroutine works for each processor at most.
type queue struct {
	mu      sync.Mutex // guards what follows
	waiting []*call
	workers int
}

var shared queue

// add appends a call, and reports whether its caller has to work.
func (q *queue) add(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	if q.workers >= runtime.GOMAXPROCS(0) {
		return false
	}
	q.workers++
	return true
}

// work derives keys until that of a caller is there, and leaves those that wait then to a goroutine. Without a caller
// it works until none wait.
func (q *queue) work(caller *call) { q.workOn(q.take(), caller) }

func (q *queue) workOn(batch []*call, caller *call) {
	for len(batch) > 0 {
		deriveAll(batch)
		for _, c := range batch {
			close(c.done)
		}
		batch = q.take()
		if len(batch) > 0 && caller != nil && caller.isDone() {
			go q.workOn(batch, nil)
			return
		}
	}
}

// take removes the calls that are done next, together: the first that waits, and others with as many iterations. If
// none wait there is one worker less.
func (q *queue) take() (batch []*call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := q.waiting[:0]
	for _, c := range q.waiting {
		if len(batch) < lanes && (len(batch) == 0 || c.iterations == batch[0].iterations) {
			batch = append(batch, c)
		} else {
			rest = append(rest, c)
		}
	}
	clear(q.waiting[len(rest):])
	q.waiting = rest
	if len(batch) == 0 {
		q.workers--
	}
	return batch
}
