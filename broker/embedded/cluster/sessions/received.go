package sessions

import "encoding/binary"

// A node that this one cannot reach may store messages for it that a session has received elsewhere. So a
// session that comes meanwhile brings the stamps of what it has received of that node's messages.

// bringReceived asks the nodes of offers, whose sessions were fetched, for what they have received. Nodes of
// older releases do not know: such messages come twice.
func (c *Coordinator) bringReceived(t *lease, imported *importedSession, offers []peerOffer) {
	if len(t.skipped) == 0 {
		return
	}
	for i, o := range offers {
		b, err := c.ask(t.ctx, o.from, receivedRequest{o.transferID, t.skipped}.encode())
		if err != nil {
			continue
		}
		if stamps, err := decodeReceived(b); err == nil {
			imported.parts[i].Received(stamps)
		}
	}
}

// received returns what a session that was fetched has received of the messages of some nodes.
func (h *handoff) received(q receivedRequest) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || !h.frozen {
		return encodeReceived(nil)
	}
	return encodeReceived(h.session.Received(q.nodes))
}

// receivedRequest asks what an offered session has received of the messages that were published at some nodes.
type receivedRequest struct {
	id    uint64 // of the transfer
	nodes []int
}

func (q receivedRequest) encode() []byte {
	w := newWriter(kindReceived)
	w.number(q.id)
	w.number(uint64(len(q.nodes)))
	for _, n := range q.nodes {
		w.number(uint64(n))
	}
	return w.b
}

func decodeReceivedRequest(r *reader) (q receivedRequest, err error) {
	q.id = r.Number()
	for range min(r.Count(1), maxNodes) {
		q.nodes = append(q.nodes, int(r.NumberUpTo(1<<31)))
	}
	return q, r.finish()
}

// encodeReceived encodes the stamps of messages.
func encodeReceived(stamps []uint64) []byte {
	w := newWriter(kindReceived)
	w.number(uint64(len(stamps)))
	for _, stamp := range stamps {
		w.b = binary.BigEndian.AppendUint64(w.b, stamp)
	}
	return w.b
}

func decodeReceived(b []byte) (stamps []uint64, err error) {
	r, kind := newReader(b)
	for range r.Count(8) {
		stamps = append(stamps, r.Uint64())
	}
	if kind != kindReceived {
		return nil, errFormat
	}
	return stamps, r.finish()
}
