package packet

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addSeeds adds all packets of one decoder to a fuzz target.
func addSeeds(f *testing.F, name string) {
	f.Helper()
	for _, k := range kinds {
		for _, s := range k.samples {
			if k.name == name && len(s.packet) < 1000 {
				f.Add(s.packet[0], s.packet[2:], s.version)
			}
		}
	}
}

// fuzzed returns a packet with a correct length and an existing version, because decoders
// reject all others.
func fuzzed(first byte, rest []byte, version byte) ([]byte, byte) {
	return append([]byte{first}, sized(rest)...), V31 + version%3
}

// same wants what was decoded, encoded and decoded again to be what it was.
func checkSame[T any](t *testing.T, p []byte, want, got T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("% x: what was decoded cannot be decoded again: %v", p, err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Publish{})); diff != "" {
		t.Fatalf("% x (-decoded +encoded and decoded):\n%s", p, diff)
	}
}

// checkFault checks that an error has a reason code, and does not come from mochi's decoder:
// that must accept what was validated.
func checkFault(t *testing.T, p []byte, err error) {
	t.Helper()
	if got := reasonOf(t, err); got == 0 || err == error(errUndecodable) {
		t.Fatalf("% x: got %v", p, err)
	}
}

func FuzzDecodeConnect(f *testing.F) {
	addSeeds(f, "CONNECT")
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, _ := fuzzed(first, rest, version)
		c, err := DecodeConnect(p)
		if err != nil {
			checkFault(t, p, err)
			return
		}
		if c.Will != nil && (!validTopic([]byte(c.Will.Topic)) || c.Will.QoS > 2) || c.ReceiveMaximum == 0 {
			t.Fatalf("% x is taken: %+v", p, c)
		}
		again, err := DecodeConnect(AppendConnect(nil, c))
		checkSame(t, p, c, again, err)
	})
}

func FuzzDecodePublish(f *testing.F) {
	addSeeds(f, "PUBLISH")
	var into Publish
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, version := fuzzed(first, rest, version)
		err := DecodePublish(p, version, &into)
		if err != nil {
			checkFault(t, p, err)
			return
		}
		m := into
		if len(m.Topic) == 0 && !m.HasAlias || len(m.Topic) > 0 && !validTopic(m.Topic) || m.QoS > 2 || m.QoS > 0 && m.PacketID == 0 {
			t.Fatalf("% x is taken: %+v", p, m)
		}
		o := Outgoing{Topic: string(m.Topic), Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Dup: m.Dup, Retain: m.Retain,
			PacketID: m.PacketID, Expiry: m.Expiry, HasExpiry: m.HasExpiry, Alias: m.Alias}
		encoded := AppendPublish(nil, version, &o)
		if len(encoded) != len(p) || len(encoded) != PublishSize(version, &o) {
			t.Fatalf("% x: encoded again % x, PublishSize %d", p, encoded, PublishSize(version, &o))
		}
		if at := PacketIDOffset(encoded); m.QoS > 0 && !slices.Equal(encoded[at:at+2], []byte{byte(m.PacketID >> 8), byte(m.PacketID)}) {
			t.Fatalf("% x: got offset %d of the packet identifier", encoded, at)
		}
		var again Publish
		err = DecodePublish(encoded, version, &again)
		m.buf, again.buf = nil, nil
		if len(m.Properties) == 0 && len(again.Properties) == 0 {
			m.Properties, again.Properties = nil, nil
		}
		checkSame(t, p, m, again, err)
	})
}

func FuzzDecodeAck(f *testing.F) {
	addSeeds(f, "acknowledgement")
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, version := fuzzed(first, rest, version)
		a, err := DecodeAck(p, version)
		if err != nil {
			checkFault(t, p, err)
			return
		}
		again, err := DecodeAck(AppendAck(nil, version, a.Type, a.PacketID, a.Reason, ""), version)
		checkSame(t, p, a, again, err)
	})
}

func FuzzDecodeSubscribe(f *testing.F) {
	addSeeds(f, "SUBSCRIBE")
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, version := fuzzed(first, rest, version)
		s, err := DecodeSubscribe(p, version)
		if err != nil {
			checkFault(t, p, err)
			return
		}
		for _, filter := range s.Filters {
			if !ValidFilter(filter.Filter) || filter.QoS() > 2 || filter.RetainHandling() > 2 {
				t.Fatalf("% x is taken: %+v", p, s)
			}
		}
		again, err := DecodeSubscribe(AppendSubscribe(nil, version, s), version)
		checkSame(t, p, s, again, err)
	})
}

func FuzzDecodeUnsubscribe(f *testing.F) {
	addSeeds(f, "UNSUBSCRIBE")
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, version := fuzzed(first, rest, version)
		u, err := DecodeUnsubscribe(p, version)
		if err != nil {
			checkFault(t, p, err)
			return
		}
		again, err := DecodeUnsubscribe(AppendUnsubscribe(nil, version, u), version)
		checkSame(t, p, u, again, err)
	})
}

// FuzzDecodeSmall tests the decoders of packets that end a connection or keep it alive.
func FuzzDecodeSmall(f *testing.F) {
	addSeeds(f, "DISCONNECT")
	addSeeds(f, "PINGREQ")
	f.Fuzz(func(t *testing.T, first byte, rest []byte, version byte) {
		p, version := fuzzed(first, rest, version)
		if d, err := DecodeDisconnect(p, version); err != nil {
			checkFault(t, p, err)
		} else if d.HasSessionExpiry && version != V5 || first != 0xe0 && version != V31 {
			t.Fatalf("% x is taken: %+v", p, d)
		}
		if err := DecodePingreq(p); (err == nil) != (first == 0xc0 && len(rest) == 0) {
			t.Fatalf("% x: got %v", p, err)
		}
	})
}

// FuzzRaw passes raw bytes to all decoders: most lengths are wrong.
func FuzzRaw(f *testing.F) {
	for _, k := range kinds {
		f.Add(k.samples[0].packet, k.samples[0].version)
	}
	f.Add(b(0x30, 0xff, 0xff, 0xff, 0xff, 1), V5)
	f.Fuzz(func(t *testing.T, p []byte, version byte) {
		size, err := Size(p)
		whole := err == nil && size == len(p)
		for _, k := range kinds {
			if _, err := k.decode(p, version); err == nil && !whole {
				t.Fatalf("% x is taken for %s, but has a length of %d", p, k.name, size)
			}
		}
		validTopic(p)
		all := DescribeProperties(p)
		if raw, err := EncodeProperties(all); err == nil {
			checkSame(t, p, all, DescribeProperties(raw), nil)
		}
	})
}

// FuzzValidFilter compares ValidFilter with a second implementation of the grammar.
func FuzzValidFilter(f *testing.F) {
	for filter := range filters {
		f.Add(filter)
	}
	f.Fuzz(func(t *testing.T, filter string) {
		share, rest, shared := SplitShared(filter)
		if shared && "$share/"+share+"/"+rest != filter || !shared && rest != filter {
			t.Fatalf("SplitShared(%q): got %q, %q, %t", filter, share, rest, shared)
		}
		if ValidFilter(filter) != matchesGrammar(filter) {
			t.Fatalf("ValidFilter(%q): got %t", filter, ValidFilter(filter))
		}
		if validTopic([]byte(filter)) && !ValidFilter(filter) && !shareLike.MatchString(filter) {
			t.Fatalf("%q is a topic and no filter", filter)
		}
	})
}
