package mesh

import (
	"sort"

	"signalbox/broker/embedded/engine"
)

// Bounds of the queue of one peer.
const (
	maxWaiting      = 65_536   // messages
	maxWaitingBytes = 16 << 20 // their topics, payloads and properties
)

// queue holds the messages for one peer: those not sent yet, in order, and those above QoS 0
// that are not confirmed.
type queue struct {
	unsent      ring[messageFrame]
	unconfirmed ring[messageFrame]
	lastNumber  uint64 // number of the latest above QoS 0
	confirmed   uint64 // all up to this number are confirmed or given up
	resendFrom  int    // index of the first unconfirmed message to send again
	bytes       int64
}

func (q *queue) waiting() int { return q.unsent.len() + q.unconfirmed.len() }

// full reports whether there is no space for another message. A single one may have any size.
func (q *queue) full(p *messageFrame) bool {
	return q.waiting() >= maxWaiting || q.bytes > 0 && q.bytes+p.size() > maxWaitingBytes
}

// overHalf reports whether the queue is more than half full.
func (q *queue) overHalf() bool { return q.waiting() > maxWaiting/2 || q.bytes > maxWaitingBytes/2 }

// roomy reports whether there is space for a page of the backlog.
func (q *queue) roomy() bool { return q.waiting() < maxWaiting/8 && q.bytes < maxWaitingBytes/8 }

// push queues a message, and numbers it if it is to be confirmed.
func (q *queue) push(p messageFrame) {
	if p.QoS > 0 {
		q.lastNumber++
		p.number = q.lastNumber
	}
	q.bytes += p.size()
	q.unsent.push(p)
}

// nextBatch appends the messages to send next to batch, up to a size, and returns how many of
// them are repeated.
func (q *queue) nextBatch(batch []messageFrame, size int64) (taken []messageFrame, repeated int) {
	for ; q.resendFrom < q.unconfirmed.len() && size > 0; q.resendFrom++ {
		p := q.unconfirmed.at(q.resendFrom)
		batch = append(batch, *p)
		size -= p.size() + overhead
		repeated++
	}
	for q.unsent.len() > 0 && size > 0 {
		p := q.unsent.pop()
		batch = append(batch, p)
		size -= p.size() + overhead
		if p.number == 0 {
			q.bytes -= p.size()
			continue
		}
		q.unconfirmed.push(p)
		q.resendFrom++
	}
	return batch, repeated
}

// overhead is the approximate size of the metadata of a message.
const overhead = 64

// resume marks the messages for repetition that the peer has not received. All messages
// waiting become late.
func (q *queue) resume(received uint64) {
	q.resendFrom = 0
	for i := range q.unconfirmed.len() {
		p := q.unconfirmed.at(i)
		p.late = true
		if p.number <= received {
			q.resendFrom = i + 1
		}
	}
	for i := range q.unsent.len() {
		q.unsent.at(i).late = true
	}
}

// confirm removes the messages up to a number and appends their receipts. It returns the last
// number that one of them has in the backlog, 0 for none.
func (q *queue) confirm(number uint64, receipts []engine.Receipt) (all []engine.Receipt, stored uint64) {
	for q.unconfirmed.len() > 0 && q.resendFrom > 0 && q.unconfirmed.at(0).number <= number {
		p := q.unconfirmed.pop()
		q.resendFrom--
		q.confirmed = p.number
		q.bytes -= p.size()
		stored = max(stored, p.stored)
		if p.Receipt != nil {
			receipts = append(receipts, p.Receipt)
		}
	}
	return receipts, stored
}

// find returns a message that was sent and is not confirmed, or nil.
func (q *queue) find(number uint64) *messageFrame {
	i := sort.Search(q.resendFrom, func(i int) bool { return q.unconfirmed.at(i).number >= number })
	if i == q.resendFrom || q.unconfirmed.at(i).number != number {
		return nil
	}
	return q.unconfirmed.at(i)
}

// filter removes the messages of QoS 0 and those for which keep returns false, in order. There must
// be no link.
func (q *queue) filter(keep func(*messageFrame) bool) {
	q.resendFrom, q.bytes, q.confirmed = 0, 0, q.lastNumber
	for _, r := range []*ring[messageFrame]{&q.unconfirmed, &q.unsent} {
		for range r.len() {
			p := r.pop()
			if p.number == 0 || !keep(&p) {
				continue
			}
			q.confirmed = min(q.confirmed, p.number-1)
			q.bytes += p.size()
			r.push(p)
		}
	}
}

// clear empties the queue and returns the messages above QoS 0 that are not in the backlog, in order.
func (q *queue) clear() (messages []messageFrame) {
	q.filter(func(p *messageFrame) bool {
		if p.stored == 0 {
			messages = append(messages, *p)
		}
		return false
	})
	return messages
}
