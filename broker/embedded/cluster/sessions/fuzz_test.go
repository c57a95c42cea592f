package sessions

import (
	"bytes"
	"reflect"
	"testing"

	"signalbox/broker/embedded/engine"
)

// samples returns an encoded request or response of every kind, with its decoder and encoder.
func samples() map[string]struct {
	bytes  []byte
	decode func([]byte) (any, error)
	encode func(any) []byte
} {
	offered := claimResponse{kind: kindClaim, outcome: outcomeOffered, offer: offer{transferID: 7, next: 9, arrival: 11, state: engine.StoredSession{
		SessionRecord: engine.SessionRecord{
			ClientID: "c", Username: "u", Anonymous: true, Version: 5, Clean: true, KeepAlive: 60, ExpiryInterval: 3600,
			CreatedAt: -1, ConnectedAt: 2, DisconnectedAt: 3, Address: "::1",
		},
		Subscriptions: []engine.SubscriptionRecord{{Filter: "$share/g/a/#", Options: 2, ID: 5}, {Filter: "+", Options: 1}},
	}}}
	withWill := offered
	withWill.kind = kindClaimWill
	withWill.offer.state.Will = &engine.WillRecord{Topic: "w", Payload: []byte("p"), Properties: []byte{1, 1}, QoS: 2, Retain: true, Delay: 60, Expiry: 1, HasExpiry: true}
	withWill.offer.state.WillDueAt = 99
	p := page{more: true, sentSeq: 4, incoming: []uint16{1, 65535}, queue: []engine.QueueRecord{
		{Seq: 1, QoS: 2, Released: true, Retain: true, Share: "g", SubscriptionIDs: []uint32{1, 300}, Message: &engine.Message{
			Topic: "a", Payload: []byte("p"), Properties: []byte{1, 1}, QoS: 2, Retain: true, CreatedAt: 5, ExpiresAt: 6,
			Publisher: "x", Username: "y", Stamp: 1 << 60,
		}},
		{Seq: 2, QoS: 1, Message: &engine.Message{Topic: "b"}},
	}}
	type sample = struct {
		bytes  []byte
		decode func([]byte) (any, error)
		encode func(any) []byte
	}
	inner := func(b []byte) *reader { r, _ := newReader(b); return r }
	return map[string]sample{
		"claim": {
			claimRequest{engine.Claim{ClientID: "c", Username: "u", CleanStart: true, Timestamp: 5}, true}.encode(),
			func(b []byte) (any, error) { return decodeClaim(kindClaim, inner(b)) },
			func(v any) []byte { return v.(claimRequest).encode() },
		},
		"claim response": {
			offered.encode(), func(b []byte) (any, error) { return decodeClaimResponse(b) },
			func(v any) []byte { a := v.(claimResponse); return a.encode() },
		},
		"claim with the Will": {
			claimRequest{engine.Claim{ClientID: "c", Timestamp: 5, KeepWill: true}, true}.encode(),
			func(b []byte) (any, error) { return decodeClaim(kindClaimWill, inner(b)) },
			func(v any) []byte { return v.(claimRequest).encode() },
		},
		"claim response with the Will": {
			withWill.encode(), func(b []byte) (any, error) { return decodeClaimResponse(b) },
			func(v any) []byte { a := v.(claimResponse); return a.encode() },
		},
		"transfer": {
			transferRequest{1, 2, 3}.encode(kindFetch), func(b []byte) (any, error) { return decodeTransfer(inner(b)) },
			func(v any) []byte { return v.(transferRequest).encode(kindFetch) },
		},
		"page": {
			p.encode(), func(b []byte) (any, error) { return decodePage(b) },
			func(v any) []byte { p := v.(page); return p.encode() },
		},
		"chunk": {
			chunk{10, []byte("0123456789")}.encode(), func(b []byte) (any, error) { return decodeChunk(b) },
			func(v any) []byte { return v.(chunk).encode() },
		},
		"reply": {
			reply{replyDone, 5}.encode(kindStatus), func(b []byte) (any, error) { return decodeReply(b) },
			func(v any) []byte { return v.(reply).encode(kindStatus) },
		},
		"status": {
			statusRequest{"c", 9}.encode(), func(b []byte) (any, error) { return decodeStatus(inner(b)) },
			func(v any) []byte { return v.(statusRequest).encode() },
		},
		"ownership": {
			encodeReceive(engine.Ownership{ClientID: "c", Username: "u", Anonymous: true, CreatedAt: 5, Timestamp: 6}),
			func(b []byte) (any, error) { return decodeReceive(kindReceive, inner(b)) },
			func(v any) []byte { return encodeReceive(v.(engine.Ownership)) },
		},
		"flush": {
			encodeFlush([]int{1, 2, 300}), func(b []byte) (any, error) { return decodeFlush(inner(b)) },
			func(v any) []byte { return encodeFlush(v.([]int)) },
		},
		"received request": {
			receivedRequest{7, []int{1, 300}}.encode(), func(b []byte) (any, error) { return decodeReceivedRequest(inner(b)) },
			func(v any) []byte { return v.(receivedRequest).encode() },
		},
		"received response": {
			received{[]uint64{1, 1 << 60}, []engine.DirectMessage{{Node: 3, Topic: "a", Stamp: 9}}, true}.encode(),
			func(b []byte) (any, error) { return decodeReceived(b) },
			func(v any) []byte { return v.(received).encode() },
		},
		"list request": {
			encodeListRequest("c"), func(b []byte) (any, error) { return decodeClientID(inner(b)) },
			func(v any) []byte { return encodeListRequest(v.(string)) },
		},
		"list response": {
			encodeListResponse([]engine.Ownership{
				{ClientID: "c", Username: "u", Anonymous: true, CreatedAt: -5, Timestamp: 6}, {ClientID: "d", Connected: true, CreatedAt: 1, Timestamp: 2},
			}),
			func(b []byte) (any, error) { return decodeListResponse(b) },
			func(v any) []byte { return encodeListResponse(v.([]engine.Ownership)) },
		},
	}
}

// TestCodec decodes what was encoded, and rejects truncated input, trailing bytes and other
// versions.
func TestCodec(t *testing.T) {
	t.Parallel()
	for name, s := range samples() {
		v, err := s.decode(s.bytes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if again := s.encode(v); !bytes.Equal(again, s.bytes) {
			t.Errorf("%s: %+v is written as % x, was % x", name, v, again, s.bytes)
		}
		for n := range s.bytes {
			if _, err := s.decode(s.bytes[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are read", name, n, len(s.bytes))
			}
		}
		if _, err := s.decode(append(bytes.Clone(s.bytes), 0)); err == nil {
			t.Errorf("%s: is decoded with trailing bytes", name)
		}
		other := bytes.Clone(s.bytes)
		other[0]++
		if _, err := s.decode(other); err == nil {
			t.Errorf("%s: another version is read", name)
		}
	}
}

// FuzzDecode decodes any input: what can be decoded survives encoding.
func FuzzDecode(f *testing.F) {
	all := samples()
	for _, s := range all {
		f.Add(s.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, s := range all {
			v, err := s.decode(b)
			if err != nil {
				continue
			}
			again, err := s.decode(s.encode(v))
			if err != nil || !reflect.DeepEqual(again, v) {
				t.Errorf("%s: % x is read as %+v, and that as %+v, %v", name, b, v, again, err)
			}
		}
	})
}
