package sessions

import (
	"encoding/binary"
	"math"

	"signalbox/broker/embedded/engine"
)

// A node that this one cannot reach may store messages for it that a session has received elsewhere, and may
// have an older session of the same client. So a session that comes meanwhile brings what it has received.

// bringReceived asks the nodes of offers, whose sessions were fetched, for what they have received, if there may be
// something that must not come again: from a node that does not respond, or from an older session.
func (c *Coordinator) bringReceived(t *lease, imported *importedSession, offers []peerOffer) {
	away, settled := c.awayPeers(t.skipped)
	if settled && len(away) == 0 && !t.carries {
		c.o.Engine.AddDirect(t.clientID, nil, false)
		return
	}
	var direct []engine.DirectMessage
	known := true
	for i, o := range offers {
		has := c.askReceived(t, o, away)
		imported.parts[i].Received(has.stamps)
		known, direct = known && has.knowsDirect, append(direct, has.direct...)
	}
	c.o.Engine.AddDirect(t.clientID, direct, known)
}

// askReceived asks the node of an offer, whose session was fetched, for what that has received, and which of the messages
// of some nodes. Nodes of older releases do not know: such messages come twice.
func (c *Coordinator) askReceived(t *lease, o peerOffer, nodes []int) (has received) {
	b, err := c.askNew(t.ctx, o.from, receivedRequest{o.transferID, nodes}.encode())
	if err == nil {
		has, err = decodeReceived(b)
	}
	if err != nil {
		c.o.Log.Debug("what a session has received is not known", "node", o.from, "error", err)
	}
	return has
}

// received is what a session has received.
type received struct {
	stamps      []uint64               // of the messages of some nodes
	direct      []engine.DirectMessage // since it began
	knowsDirect bool
}

// received returns what a session that was fetched has received, and which of the messages of some nodes.
func (h *handoff) received(nodes []int) (a received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && h.frozen {
		a.stamps = h.session.Received(nodes)
		a.direct, a.knowsDirect = h.session.Direct()
	}
	return a
}

// receivedRequest asks what an offered session has received, and which of the messages of some nodes.
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

func (a received) encode() []byte {
	w := newWriter(kindReceived)
	w.number(uint64(len(a.stamps)))
	for _, stamp := range a.stamps {
		w.b = binary.BigEndian.AppendUint64(w.b, stamp)
	}
	w.bool(a.knowsDirect)
	w.number(uint64(len(a.direct)))
	for _, m := range a.direct {
		w.number(uint64(m.Node))
		w.text(m.Topic)
		w.number(m.Stamp)
	}
	return w.b
}

// minDirectSize is the minimum encoded size of a direct message.
const minDirectSize = 3

func decodeReceived(b []byte) (a received, err error) {
	r, kind := newReader(b)
	for range r.Count(8) {
		a.stamps = append(a.stamps, r.Uint64())
	}
	a.knowsDirect = r.Bool()
	for range r.Count(minDirectSize) {
		a.direct = append(a.direct, engine.DirectMessage{Node: uint16(r.NumberUpTo(math.MaxUint16)), Topic: r.Text(), Stamp: r.Number()})
	}
	if kind != kindReceived {
		return received{}, errFormat
	}
	if err := r.finish(); err != nil {
		return received{}, err
	}
	return a, nil
}
