package sessions

import "signalbox/broker/embedded/engine"

// claimRequest claims the session of a client id.
type claimRequest struct {
	engine.Claim
	anyUser bool // claimed by the node itself, for a session of any user
}

func (q claimRequest) encode() []byte {
	kind := byte(kindClaim)
	if q.KeepWill {
		kind = kindClaimWill
	}
	w := newWriter(kind)
	w.text(q.ClientID)
	w.text(q.Username)
	w.bool(q.Anonymous)
	w.bool(q.CleanStart)
	w.number(q.Timestamp)
	w.bool(q.anyUser)
	return w.b
}

func decodeClaim(kind byte, r *reader) (q claimRequest, err error) {
	q.KeepWill = kind == kindClaimWill
	q.ClientID, q.Username = r.Text(), r.Text()
	q.Anonymous, q.CleanStart, q.Timestamp, q.anyUser = r.Bool(), r.Bool(), r.Number(), r.Bool()
	return q, r.finish()
}

// The outcomes of a claim.
const (
	outcomeNone       = 1 + iota // there is no session, or it was ended
	outcomeOffered               // there is one to fetch
	outcomeSuperseded            // there is a later connection
	outcomeOtherUser             // the session belongs to another user
	outcomeBusy                  // the node cannot offer it now
)

// offer describes a session that another node may fetch.
type offer struct {
	transferID uint64 // names the transfer in further requests
	next       uint64 // the next sequence number
	arrival    uint64 // timestamp of its last CONNECT
	state      engine.StoredSession
}

// claimResponse is the response to a claim.
type claimResponse struct {
	kind    byte // of the claim
	outcome byte
	offer   offer // if the outcome is outcomeOffered
}

func (a *claimResponse) encode() []byte {
	w := newWriter(a.kind)
	w.byte(a.outcome)
	if a.outcome == outcomeOffered {
		w.number(a.offer.transferID)
		w.number(a.offer.next)
		w.number(a.offer.arrival)
		w.session(&a.offer.state)
		if a.kind == kindClaimWill {
			w.will(a.offer.state.Will, a.offer.state.WillDueAt)
		}
	}
	return w.b
}

func decodeClaimResponse(b []byte) (a claimResponse, err error) {
	r, kind := newReader(b)
	a.kind, a.outcome = kind, r.Byte()
	if kind != kindClaim && kind != kindClaimWill || a.outcome < outcomeNone || a.outcome > outcomeBusy {
		return a, errFormat
	}
	if a.outcome == outcomeOffered {
		a.offer.transferID, a.offer.next, a.offer.arrival = r.Number(), r.NumberUpTo(maxSeq), r.Number()
		a.offer.state = r.session()
		if kind == kindClaimWill {
			a.offer.state.Will, a.offer.state.WillDueAt = r.will()
		}
	}
	return a, r.finish()
}

// transferRequest is a fetch, confirm or cancel request.
type transferRequest struct {
	id     uint64
	after  uint64 // sequence number: of fetch, the page follows it; of confirm, the last message imported
	offset uint64 // in the page, of fetch
}

func (q transferRequest) encode(kind byte) []byte {
	w := newWriter(kind)
	w.number(q.id)
	w.number(q.after)
	w.number(q.offset)
	return w.b
}

func decodeTransfer(r *reader) (q transferRequest, err error) {
	q = transferRequest{id: r.Number(), after: r.NumberUpTo(maxSeq), offset: r.Number()}
	return q, r.finish()
}

// chunk is a part of an encoded page.
type chunk struct {
	total uint64 // bytes of the page; 0 if the session is not offered any more
	bytes []byte
}

func (a chunk) encode() []byte {
	w := newWriter(kindFetch)
	w.number(a.total)
	w.bytes(a.bytes)
	return w.b
}

func decodeChunk(b []byte) (a chunk, err error) {
	r, kind := newReader(b)
	a.total, a.bytes = r.Number(), r.bytes()
	if kind != kindFetch {
		return a, errFormat
	}
	return a, r.finish()
}

// The responses to confirm, cancel, flush, pull and status.
const (
	replyDone    = 1 + iota
	replyMore    // more messages were queued since
	replyUnknown // the transfer is not known (any more)
	replyBusy    // in progress
)

// reply is the response to these requests. upTo is set in that to a status request.
type reply struct {
	status byte
	upTo   uint64
}

func (a reply) encode(kind byte) []byte {
	w := newWriter(kind)
	w.byte(a.status)
	w.number(a.upTo)
	return w.b
}

func decodeReply(b []byte) (a reply, err error) {
	r, _ := newReader(b)
	a.status, a.upTo = r.Byte(), r.NumberUpTo(maxSeq)
	if a.status < replyDone || a.status > replyBusy {
		return a, errFormat
	}
	return a, r.finish()
}

// statusRequest asks whether an offered session was imported.
type statusRequest struct {
	clientID   string
	transferID uint64
}

func (q statusRequest) encode() []byte {
	w := newWriter(kindStatus)
	w.text(q.clientID)
	w.number(q.transferID)
	return w.b
}

func decodeStatus(r *reader) (q statusRequest, err error) {
	q = statusRequest{clientID: r.Text(), transferID: r.Number()}
	return q, r.finish()
}

// maxNodes bounds the nodes in a flush request.
const maxNodes = 1000

func encodeFlush(to []int) []byte {
	w := newWriter(kindFlush)
	w.number(uint64(len(to)))
	for _, n := range to {
		w.number(uint64(n))
	}
	return w.b
}

func decodeFlush(r *reader) (to []int, err error) {
	n := min(r.Count(1), maxNodes)
	for range n {
		to = append(to, int(r.NumberUpTo(1<<31)))
	}
	return to, r.finish()
}

// encodeListRequest encodes a request for the sessions after a client id.
func encodeListRequest(after string) []byte {
	w := newWriter(kindList)
	w.text(after)
	return w.b
}

func encodePull(clientID string) []byte {
	w := newWriter(kindPull)
	w.text(clientID)
	return w.b
}

// encodeReceive encodes a request to take over a session, with its Will if it has one.
func encodeReceive(h engine.Ownership) []byte {
	kind := byte(kindReceive)
	if h.HasWill {
		kind = kindReceiveWill
	}
	w := newWriter(kind)
	w.ownership(h)
	return w.b
}

func decodeReceive(kind byte, r *reader) (h engine.Ownership, err error) {
	h = r.ownership()
	h.HasWill = kind == kindReceiveWill
	return h, r.finish()
}

// decodeClientID decodes a request that consists of a client id.
func decodeClientID(r *reader) (string, error) {
	s := r.Text()
	return s, r.finish()
}

// minListEntrySize is the minimum encoded size of a session in a list.
const minListEntrySize = 6

func encodeListResponse(list []engine.Ownership) []byte {
	w := newWriter(kindList)
	w.number(uint64(len(list)))
	for _, h := range list {
		w.ownership(h)
	}
	return w.b
}

func (w *writer) ownership(h engine.Ownership) {
	w.text(h.ClientID)
	w.text(h.Username)
	w.bool(h.Anonymous)
	w.bool(h.Connected)
	w.signed(h.CreatedAt)
	w.number(h.Timestamp)
}

func (r *reader) ownership() engine.Ownership {
	return engine.Ownership{
		ClientID: r.Text(), Username: r.Text(), Anonymous: r.Bool(), Connected: r.Bool(),
		CreatedAt: r.Signed(), Timestamp: r.Number(),
	}
}

func decodeListResponse(b []byte) (list []engine.Ownership, err error) {
	r, kind := newReader(b)
	for range r.Count(minListEntrySize) {
		list = append(list, r.ownership())
	}
	if kind != kindList {
		return nil, errFormat
	}
	return list, r.finish()
}
