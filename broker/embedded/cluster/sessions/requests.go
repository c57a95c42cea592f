package sessions

import "signalbox/broker/embedded/engine"

// claimRequest asks for the session of a client id.
type claimRequest struct {
	engine.Claim
	anyUser bool // for the node itself, whoever's the session is
}

func (q claimRequest) encode() []byte {
	w := newWriter(kindClaim)
	w.text(q.ClientID)
	w.text(q.Username)
	w.bool(q.Anonymous)
	w.bool(q.CleanStart)
	w.number(q.Arrival)
	w.bool(q.anyUser)
	return w.b
}

func decodeClaim(r *reader) (q claimRequest, err error) {
	q.ClientID, q.Username = r.text(), r.text()
	q.Anonymous, q.CleanStart, q.Arrival, q.anyUser = r.bool(), r.bool(), r.number(), r.bool()
	return q, r.finish()
}

// The outcomes of a claim.
const (
	outcomeNone    = 1 + iota // there is no session, or none is left
	outcomeGiven              // there is one, to be fetched
	outcomeLater              // there is a later connection
	outcomeForeign            // the session is another user's
	outcomeBusy               // there may be one, but not now
)

// gift is a session that is given: what is said of it at first.
type gift struct {
	ticket  uint64 // by which it is fetched
	next    uint64 // the sequence number that the next message would have
	arrival uint64 // of the CONNECT that had it last
	state   engine.StoredSession
}

// claimAnswer tells what became of a claim.
type claimAnswer struct {
	outcome byte
	gift    gift // where it is given
}

func (a *claimAnswer) encode() []byte {
	w := newWriter(kindClaim)
	w.byte(a.outcome)
	if a.outcome == outcomeGiven {
		w.number(a.gift.ticket)
		w.number(a.gift.next)
		w.number(a.gift.arrival)
		w.session(&a.gift.state)
	}
	return w.b
}

func decodeClaimAnswer(b []byte) (a claimAnswer, err error) {
	r, kind := newReader(b)
	a.outcome = r.byte()
	if kind != kindClaim || a.outcome < outcomeNone || a.outcome > outcomeBusy {
		return a, errFormat
	}
	if a.outcome == outcomeGiven {
		a.gift.ticket, a.gift.next, a.gift.arrival = r.number(), r.upTo(maxSeq), r.number()
		a.gift.state = r.session()
	}
	return a, r.finish()
}

// ticketRequest is about a session that is being given: fetch, done or keep.
type ticketRequest struct {
	ticket uint64
	after  uint64 // sequence number; of done, up to which messages have arrived
	offset uint64 // in the page, of fetch
}

func (q ticketRequest) encode(kind byte) []byte {
	w := newWriter(kind)
	w.number(q.ticket)
	w.number(q.after)
	w.number(q.offset)
	return w.b
}

func decodeTicket(r *reader) (q ticketRequest, err error) {
	q = ticketRequest{ticket: r.number(), after: r.upTo(maxSeq), offset: r.number()}
	return q, r.finish()
}

// piece is a part of an encoded page.
type piece struct {
	total uint64 // bytes of the page; 0 where the session is not given any more
	bytes []byte
}

func (a piece) encode() []byte {
	w := newWriter(kindFetch)
	w.number(a.total)
	w.bytes(a.bytes)
	return w.b
}

func decodePiece(b []byte) (a piece, err error) {
	r, kind := newReader(b)
	a.total, a.bytes = r.number(), r.bytes()
	if kind != kindFetch {
		return a, errFormat
	}
	return a, r.finish()
}

// The answers to done, keep, flush and pull, and to status.
const (
	replyDone    = 1 + iota
	replyMore    // more has come since
	replyUnknown // there is no such thing (any more)
	replyBusy    // it is under way
)

// reply is a short answer. upTo is that of status.
type reply struct {
	what byte
	upTo uint64
}

func (a reply) encode(kind byte) []byte {
	w := newWriter(kind)
	w.byte(a.what)
	w.number(a.upTo)
	return w.b
}

func decodeReply(b []byte) (a reply, err error) {
	r, _ := newReader(b)
	a.what, a.upTo = r.byte(), r.upTo(maxSeq)
	if a.what < replyDone || a.what > replyBusy {
		return a, errFormat
	}
	return a, r.finish()
}

// statusRequest asks whether a session that was given has arrived.
type statusRequest struct {
	clientID string
	ticket   uint64
}

func (q statusRequest) encode() []byte {
	w := newWriter(kindStatus)
	w.text(q.clientID)
	w.number(q.ticket)
	return w.b
}

func decodeStatus(r *reader) (q statusRequest, err error) {
	q = statusRequest{clientID: r.text(), ticket: r.number()}
	return q, r.finish()
}

// maxNodes bounds the nodes that a request names.
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
	n := min(r.count(1), maxNodes)
	for range n {
		to = append(to, int(r.upTo(1<<31)))
	}
	return to, r.finish()
}

// listRequest asks for sessions behind a client id.
func encodeList(after string) []byte {
	w := newWriter(kindList)
	w.text(after)
	return w.b
}

func encodePull(clientID string) []byte {
	w := newWriter(kindPull)
	w.text(clientID)
	return w.b
}

// decodeName reads what is a client id alone.
func decodeName(r *reader) (string, error) {
	s := r.text()
	return s, r.finish()
}

// holdingSize is what a session takes in a list, at least.
const holdingSize = 6

func encodeHoldings(list []engine.Holding) []byte {
	w := newWriter(kindList)
	w.number(uint64(len(list)))
	for _, h := range list {
		w.text(h.ClientID)
		w.text(h.Username)
		w.bool(h.Anonymous)
		w.bool(h.Connected)
		w.signed(h.CreatedAt)
		w.number(h.Arrival)
	}
	return w.b
}

func decodeHoldings(b []byte) (list []engine.Holding, err error) {
	r, kind := newReader(b)
	for range r.count(holdingSize) {
		list = append(list, engine.Holding{
			ClientID: r.text(), Username: r.text(), Anonymous: r.bool(), Connected: r.bool(),
			CreatedAt: r.signed(), Arrival: r.number(),
		})
	}
	if kind != kindList {
		return nil, errFormat
	}
	return list, r.finish()
}
