package mesh

import "signalbox/broker/embedded/engine"

// Bounds of what waits for one other node.
const (
	maxWaiting      = 65_536   // messages
	maxWaitingBytes = 16 << 20 // their topics, payloads and properties
)

// queue holds the messages for one other node: those that are to be sent, in
// order, and those above QoS 0 that were sent and are not confirmed.
type queue struct {
	unsent      ring[parcel]
	unconfirmed ring[parcel]
	last        uint64 // number of the latest above QoS 0
	confirmed   uint64 // up to which number none waits any more
	again       int    // from which place on the unconfirmed ones are to be sent again
	bytes       int64
}

func (q *queue) waiting() int { return q.unsent.len() + q.unconfirmed.len() }

// full tells whether there is no room for another message. One alone may be of
// any size.
func (q *queue) full(p *parcel) bool {
	return q.waiting() >= maxWaiting || q.bytes > 0 && q.bytes+p.size() > maxWaitingBytes
}

// half tells whether more than half of what may wait does.
func (q *queue) half() bool { return q.waiting() > maxWaiting/2 || q.bytes > maxWaitingBytes/2 }

// push takes a message in, and gives it a number if it is to be confirmed.
func (q *queue) push(p parcel) {
	if p.QoS > 0 {
		q.last++
		p.number = q.last
	}
	q.bytes += p.size()
	q.unsent.push(p)
}

// take gives messages that are to be sent now, appended to those of before, as
// many as make up a size.
func (q *queue) take(batch []parcel, size int64) (taken []parcel, repeated int) {
	for ; q.again < q.unconfirmed.len() && size > 0; q.again++ {
		p := q.unconfirmed.at(q.again)
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
		q.again++
	}
	return batch, repeated
}

// overhead is about what is said of a message beside its topic and payload.
const overhead = 64

// resume has the messages sent again that the other node does not have, of
// those that came after a number. All that waits is late.
func (q *queue) resume(received uint64) {
	q.again = 0
	for i := range q.unconfirmed.len() {
		p := q.unconfirmed.at(i)
		p.late = true
		if p.number <= received {
			q.again = i + 1
		}
	}
	for i := range q.unsent.len() {
		q.unsent.at(i).late = true
	}
}

// confirm takes out the messages up to a number and gives those who wait for
// them.
func (q *queue) confirm(number uint64, receipts []engine.Receipt) []engine.Receipt {
	for q.unconfirmed.len() > 0 && q.again > 0 && q.unconfirmed.at(0).number <= number {
		p := q.unconfirmed.pop()
		q.again--
		q.confirmed = p.number
		q.bytes -= p.size()
		if p.Receipt != nil {
			receipts = append(receipts, p.Receipt)
		}
	}
	return receipts
}

// find gives a message that was sent and is not confirmed; nil for none.
func (q *queue) find(number uint64) *parcel {
	if q.unconfirmed.len() == 0 {
		return nil
	}
	i := int64(number - q.unconfirmed.at(0).number)
	if i < 0 || i >= int64(q.again) {
		return nil
	}
	return q.unconfirmed.at(int(i))
}

// clear takes everything out and gives the messages above QoS 0, in order.
func (q *queue) clear() (messages []parcel) {
	for _, r := range []*ring[parcel]{&q.unconfirmed, &q.unsent} {
		for r.len() > 0 {
			if p := r.pop(); p.number > 0 {
				messages = append(messages, p)
			}
		}
	}
	q.again, q.bytes, q.confirmed = 0, 0, q.last
	return messages
}
