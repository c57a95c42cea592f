package remote

import (
	"bytes"
	"context"
	"slices"
	"sync"
)

// barriers are PINGREQs after what was sent. A broker works in order, so PINGRESP means that
// it has processed everything before; unlike acknowledgements, this does not depend on the QoS
// that it allows. A barrier has passed when PINGRESP and all messages received before it were
// handled. The zero value is empty.
//
// Lock order: writing, mu.
type barriers struct {
	writing sync.Mutex // guards sent; held while a PINGREQ is written
	sent    uint64     // PINGREQs

	mu       sync.Mutex // guards the fields below; never held while waiting
	answered uint64     // PINGRESPs
	received uint64     // PUBLISHes
	handled  uint64     // of these
	waiting  []*barrier // ordered by number
}

type barrier struct {
	number         uint64 // of the PINGREQ
	answered       bool
	receivedBefore uint64 // messages received before PINGRESP
	passed         chan struct{}
}

var pingreq = []byte{0xc0, 0}

// write writes a packet and counts PINGREQs.
func (f *barriers) write(packet []byte, to func([]byte) (int, error)) (int, error) {
	if !bytes.Equal(packet, pingreq) {
		return to(packet)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	f.sent++
	return to(packet)
}

// add writes a PINGREQ and returns a channel that is closed when the barrier has passed.
func (f *barriers) add(to func([]byte) (int, error)) (<-chan struct{}, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.sent++
	w := &barrier{number: f.sent, passed: make(chan struct{})}
	f.mu.Lock()
	f.waiting = append(f.waiting, w)
	f.mu.Unlock()
	_, err := to(pingreq)
	return w.passed, err
}

// receive counts a packet from the broker by type.
func (f *barriers) receive(kind byte) {
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
			w.answered, w.receivedBefore = true, f.received
		}
	}
	f.release()
}

// handle counts a handled message.
func (f *barriers) handle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled++
	f.release()
}

// release closes the channels of the barriers that have passed. f.mu must be held.
func (f *barriers) release() {
	f.waiting = slices.DeleteFunc(f.waiting, func(w *barrier) bool {
		if !w.answered || w.receivedBefore > f.handled {
			return false
		}
		close(w.passed)
		return true
	})
}

// barrier waits until the broker has processed everything sent to it.
func (s *session) barrier(ctx context.Context) error {
	passed, err := s.conn.ping()
	if err != nil {
		passed = nil // the library notices it as well
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
