package remote

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// fences are PINGREQs behind what a broker was sent: a broker works in order, so
// that with the PINGRESP everything before it has been processed and, unlike with
// the acknowledgement of a QoS, whatever the broker allows its clients. A fence
// has passed when the PINGRESP was received and every message that was received
// before it has been handled. The zero value has none.
//
// Lock order: writing, mu.
type fences struct {
	writing sync.Mutex // guards sent; held while a PINGREQ is written
	sent    uint64     // PINGREQs

	mu       sync.Mutex // guards the fields below; never held while waiting
	answered uint64     // PINGRESPs
	received uint64     // PUBLISHes
	handled  uint64     // of these
	waiting  []*fence   // in the order of their numbers
}

type fence struct {
	number   uint64 // of its PINGREQ
	answered bool
	after    uint64 // messages that were received before the PINGRESP
	passed   chan struct{}
}

var pingreq = []byte{0xc0, 0}

// write writes a packet by way of to, and counts it if it is a PINGREQ.
func (f *fences) write(packet []byte, to func([]byte) (int, error)) (int, error) {
	if !bytes.Equal(packet, pingreq) {
		return to(packet)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	f.sent++
	return to(packet)
}

// put writes a PINGREQ and returns a channel that is closed when it has passed.
func (f *fences) put(to func([]byte) (int, error)) (<-chan struct{}, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.sent++
	w := &fence{number: f.sent, passed: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, w)
	f.mu.Unlock()
	_, err := to(pingreq)
	return w.passed, err
}

// receive counts a packet from the broker by its type.
func (f *fences) receive(kind byte) {
	if kind != packetPublish && kind != packetPingresp {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if kind == packetPublish {
		f.received++
		return
	}
	f.answered++
	for _, w := range f.waiting {
		if !w.answered && w.number <= f.answered {
			w.answered, w.after = true, f.received
		}
	}
	f.release()
}

// handle counts a message that was handled.
func (f *fences) handle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled++
	f.release()
}

// release closes the channels of the fences that have passed. The caller holds mu.
func (f *fences) release() {
	f.waiting = slices.DeleteFunc(f.waiting, func(w *fence) bool {
		if !w.answered || w.after > f.handled {
			return false
		}
		close(w.passed)
		return true
	})
}

// fence waits until the broker has processed what was sent to it.
func (s *session) fence(ctx context.Context) error {
	passed, err := s.wire.ping()
	if err != nil {
		passed = nil // the library finds out too
	}
	select {
	case <-passed:
		return nil
	case <-s.lost:
		return errLost
	case <-ctx.Done():
		return errUnconfirmed
	}
}
