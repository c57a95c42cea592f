package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// payload is what a message carries: its name, and a length of its own.
func (m message) payload() []byte {
	const head, most = 12, 400
	p := make([]byte, head+m.n*37%most)
	binary.BigEndian.PutUint32(p, uint32(m.publisher))
	binary.BigEndian.PutUint64(p[4:], uint64(m.n))
	for i := head; i < len(p); i++ {
		p[i] = byte(m.n + i)
	}
	return p
}

// readMessage tells which message a payload is. It is not ok for one that
// nobody makes.
func readMessage(p []byte) (m message, ok bool) {
	if len(p) < 12 {
		return m, false
	}
	m.publisher = int(binary.BigEndian.Uint32(p))
	m.n = int(binary.BigEndian.Uint64(p[4:]) & (1<<40 - 1))
	return m, bytes.Equal(p, m.payload())
}

// topic is where a publisher's messages go.
func topic(publisher int) string { return fmt.Sprintf("crash/%d", publisher) }

// everything is the filter of all subscribers.
const everything = "crash/+"

// The retained topics, and how the versions of their messages go around them.
// Every so often one is cleared [MQTT-3.3.1-6].
const (
	shelves    = 12
	clearEvery = 7
	shelf      = "shelf/+"
)

func shelfOf(n int) int       { return n % shelves }
func shelfTopic(k int) string { return fmt.Sprintf("shelf/%d", k) }
func clears(n int) bool       { return n%clearEvery == clearEvery-1 }
func shelfPayload(m message) []byte {
	if clears(m.n) {
		return nil
	}
	return m.payload()
}
