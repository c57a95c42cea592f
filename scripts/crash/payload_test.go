package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// payload returns what identifies a message, at a length that depends on the message.
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

// readMessage returns the message of a payload. ok is false for a payload that no
// publisher sends.
func readMessage(p []byte) (m message, ok bool) {
	if len(p) < 12 {
		return m, false
	}
	m.publisher = int(binary.BigEndian.Uint32(p))
	m.n = int(binary.BigEndian.Uint64(p[4:]) & (1<<40 - 1))
	return m, bytes.Equal(p, m.payload())
}

// topic returns the topic of a publisher's messages.
func topic(publisher int) string { return fmt.Sprintf("crash/%d", publisher) }

// allTopics is the filter of all subscribers.
const allTopics = "crash/+"

// The topics with retained messages are written in turn. One message of clearEvery
// clears its topic [MQTT-3.3.1-6].
const (
	retainedTopics = 12
	clearEvery     = 7
	retainedFilter = "retained/+"
)

func retainedTopicOf(n int) int  { return n % retainedTopics }
func retainedTopic(k int) string { return fmt.Sprintf("retained/%d", k) }
func clears(n int) bool          { return n%clearEvery == clearEvery-1 }
func retainedPayload(m message) []byte {
	if clears(m.n) {
		return nil
	}
	return m.payload()
}
