package packet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kind is a decoder and its samples.
type kind struct {
	name    string
	samples []sample
	decode  func(p []byte, version byte) (any, error)
}

// kinds are all decoders.
var kinds = []kind{
	{"CONNECT", connectSamples, func(p []byte, _ byte) (any, error) { return DecodeConnect(p) }},
	{"PUBLISH", publishSamples, func(p []byte, version byte) (any, error) {
		var m Publish
		err := DecodePublish(p, version, &m)
		return m, err
	}},
	{"acknowledgement", ackSamples, ack},
	{"SUBSCRIBE", subscribeSamples, func(p []byte, version byte) (any, error) { return DecodeSubscribe(p, version) }},
	{"UNSUBSCRIBE", unsubscribeSamples, unsubscribe},
	{"DISCONNECT", disconnectSamples, disconnect},
	{"PINGREQ", pingreqSamples, func(p []byte, _ byte) (any, error) { return nil, DecodePingreq(p) }},
}

func ack(p []byte, version byte) (any, error)         { return DecodeAck(p, version) }
func unsubscribe(p []byte, version byte) (any, error) { return DecodeUnsubscribe(p, version) }
func disconnect(p []byte, version byte) (any, error)  { return DecodeDisconnect(p, version) }

// allSamples are the samples with all that is made of texts and filters.
func allSamples() map[string][]sample {
	all := map[string][]sample{}
	for _, k := range kinds {
		all[k.name] = slices.Clone(k.samples)
	}
	for name, text := range badTexts {
		all["CONNECT"] = append(all["CONNECT"],
			sample{"client id with " + name + " [MQTT-3.1.3-4]", V311, connect(V311, 2, text), ReasonMalformed, silent},
			sample{"username with " + name + " [MQTT-3.1.3-12]", V5, connect(V5, 0x82, props(), "probe", text), ReasonMalformed, silent})
		all["PUBLISH"] = append(all["PUBLISH"],
			sample{"topic with " + name + " [MQTT-3.3.2-1]", V5, pkt(0x32, text, id7, props()), ReasonMalformed, 0})
		all["SUBSCRIBE"] = append(all["SUBSCRIBE"],
			sample{"filter with " + name + " [MQTT-3.8.3-1]", V5, pkt(0x82, id7, props(), text, b(0)), ReasonMalformed, 0})
	}
	for _, text := range goodTexts {
		all["PUBLISH"] = append(all["PUBLISH"],
			sample{fmt.Sprintf("topic %.20q", text), V5, pkt(0x32, text, id7, props()), 0, 0})
	}
	for filter, valid := range filters {
		if strings.HasPrefix(filter, sharePrefix+"/") || filter == sharePrefix {
			continue
		}
		s := sample{fmt.Sprintf("filter %q [MQTT-4.7.1-1]", filter), V5, pkt(0x82, id7, props(), filter, b(0)), ReasonMalformed, 0}
		if valid {
			s.reason = 0
		}
		all["SUBSCRIBE"] = append(all["SUBSCRIBE"], s)
	}
	return all
}

// TestDecode checks every decoder against the standard.
func TestDecode(t *testing.T) {
	t.Parallel()
	all := allSamples()
	for _, k := range kinds {
		for _, s := range all[k.name] {
			t.Run(fmt.Sprintf("%s %d %s", k.name, s.version, s.name), func(t *testing.T) {
				t.Parallel()
				_, err := k.decode(s.packet, s.version)
				if got := reasonOf(t, err); got != s.reason {
					t.Errorf("% x: got reason 0x%02x (%v), want 0x%02x", cut(s.packet), got, err, s.reason)
				}
			})
		}
	}
}

// TestDecodeCut truncates every valid packet and appends a byte; no decoder may accept that.
func TestDecodeCut(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for _, s := range k.samples {
			if s.reason != 0 {
				continue
			}
			for n := range len(s.packet) {
				if _, err := k.decode(s.packet[:n], s.version); reasonOf(t, err) == 0 {
					t.Errorf("%s: % x is taken for whole", k.name, s.packet[:n])
				}
			}
			if _, err := k.decode(append(slices.Clone(s.packet), 0), s.version); reasonOf(t, err) != ReasonMalformed {
				t.Errorf("%s: % x with a byte more is taken", k.name, s.packet)
			}
		}
	}
}

// TestDecodeOther passes every packet to the decoders of other types.
func TestDecodeOther(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for _, other := range kinds {
			for _, s := range other.samples {
				if _, err := k.decode(s.packet, s.version); k.name != other.name && reasonOf(t, err) == 0 {
					t.Errorf("% x of type %s is taken for %s", s.packet, other.name, k.name)
				}
			}
		}
	}
}

// reasonOf returns the reason code of a fault, or 0.
func reasonOf(t *testing.T, err error) byte {
	t.Helper()
	if err == nil {
		return 0
	}
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Text == "" || fault.Reason < 0x80 {
		t.Fatalf("got %T (%v), want an *Error with a reason code and a text", err, err)
	}
	return fault.Reason
}

func cut(p []byte) []byte { return p[:min(len(p), 80)] }

func TestDecodeConnect(t *testing.T) {
	t.Parallel()
	kept := join([]any{b(1, 1, 3), "json", user})
	tests := []struct {
		name   string
		packet []byte
		want   Connect
	}{
		{"MQTT 3.1", connect(V31, 0xc2, "c", "u", "p"), Connect{Version: 3, CleanStart: true, KeepAlive: 60, ClientID: "c",
			HasUsername: true, HasPassword: true, Username: "u", Password: body("p"), ReceiveMaximum: 65535, RequestProblemInfo: true}},
		{"MQTT 3.1 with a username that is missing", connect(V31, 0xc0, "c"), Connect{Version: 3, KeepAlive: 60, ClientID: "c",
			ReceiveMaximum: 65535, RequestProblemInfo: true}},
		{"bridge", pkt(0x10, "MQTT", b(0x84, 0x36, 1, 2), "c", "w", "p"), Connect{Version: 4, Bridge: true, CleanStart: true, KeepAlive: 258, ClientID: "c",
			Will: &Will{Topic: "w", Payload: body("p"), QoS: 2, Retain: true}, ReceiveMaximum: 65535, RequestProblemInfo: true}},
		{"Will with properties side by side", connect(V5, 4, props(), "c", props(b(1, 1, 3), "json", user), "w", "p"), Connect{Version: 5, KeepAlive: 60, ClientID: "c",
			Will: &Will{Topic: "w", Payload: body("p"), Properties: kept}, ReceiveMaximum: 65535, RequestProblemInfo: true}},
		{"everything", connect(V5, 0x4e, props(b(0x11, 0, 0, 1, 0), b(0x21, 0, 9), b(0x27, 0, 1, 0, 0), b(0x22, 0, 8), b(0x17, 0), b(0x19, 1), b(0x15), "m", b(0x16), "d", user),
			"c", props(b(0x18, 0, 0, 0, 7), b(1, 1), b(2, 0, 0, 0, 6), b(3), "json", user), "w", "", "pw"),
			Connect{Version: 5, CleanStart: true, KeepAlive: 60, ClientID: "c", HasPassword: true, Password: body("pw"),
				Will:          &Will{Topic: "w", Payload: []byte{}, Properties: kept, QoS: 1, Delay: 7, Expiry: 6, HasExpiry: true},
				SessionExpiry: 256, HasSessionExpiry: true, ReceiveMaximum: 9, MaximumPacketSize: 65536, TopicAliasMaximum: 8,
				RequestResponseInfo: true, AuthMethod: "m", HasAuthMethod: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.packet)
			got, err := DecodeConnect(tt.packet)
			if err != nil || !slices.Equal(before, tt.packet) {
				t.Fatalf("got %v and the packet % x, want % x", err, tt.packet, before)
			}
			clear(tt.packet) // the result must not refer to it
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeConnectVersion returns the version of rejected packets as well.
func TestDecodeConnectVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		packet []byte
		want   Connect
	}{
		{connect(V5, 3, props(), "c"), Connect{Version: 5}},
		{pkt(0x10, "MQTT", b(0x84, 3, 0, 0), "c"), Connect{Version: 4, Bridge: true}},
		{connect(6, 2, "c"), Connect{Version: 6}},
		{pkt(0x10, "HTTP", b(4, 2, 0, 0), "c"), Connect{}},
		{b(0x10), Connect{}},
		{nil, Connect{}},
	} {
		got, err := DecodeConnect(tt.packet)
		if err == nil {
			t.Errorf("% x is taken", tt.packet)
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("% x (-want +got):\n%s", tt.packet, diff)
		}
	}
}

func TestDecodePublish(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		version byte
		packet  []byte
		want    Publish
	}{
		{"at QoS 0", V311, pkt(0x31, "t", body("xy")), Publish{Retain: true, Topic: body("t"), Payload: body("xy")}},
		{"at QoS 2", V5, pkt(0x3c, "t", id7, props()), Publish{Dup: true, QoS: 2, PacketID: 7, Topic: body("t"), Payload: []byte{}}},
		{"alias alone", V5, pkt(0x30, "", props(b(0x23, 1, 2)), body("x")), Publish{Topic: []byte{}, Alias: 258, HasAlias: true, Payload: body("x")}},
		{"properties side by side", V5, pkt(0x30, "t", props(b(2, 0, 0, 0, 5), b(1, 1), user, b(3), "c", b(0x23, 0, 1))),
			Publish{Topic: body("t"), Payload: []byte{}, Alias: 1, HasAlias: true, Expiry: 5, HasExpiry: true, Properties: join([]any{b(1, 1), user, b(3), "c"})}},
		{"properties apart", V5, pkt(0x30, "t", props(b(1, 1), b(2, 0, 0, 0, 0), user, b(0x23, 0, 1, 3), "c")),
			Publish{Topic: body("t"), Payload: []byte{}, Alias: 1, HasAlias: true, HasExpiry: true, Properties: join([]any{b(1, 1), user, b(3), "c"})}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := slices.Clone(tt.packet)
			got := Publish{Dup: true, QoS: 1, Alias: 9, HasAlias: true, HasExpiry: true, Properties: user, buf: b(9, 9)} // leftovers
			if err := DecodePublish(tt.packet, tt.version, &got); err != nil {
				t.Fatal(err)
			}
			got.buf = nil
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Publish{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, part := range [][]byte{got.Topic, got.Payload, got.Properties} {
				_ = append(part, 0xaa) // must not overwrite what follows
			}
			if !slices.Equal(before, tt.packet) {
				t.Error("the packet was changed")
			}
		})
	}
}

func TestDecodeSubscribe(t *testing.T) {
	t.Parallel()
	p := pkt(0x82, id7, props(b(0x0b, 0x80, 1)), "a", b(0x2e), "$share/g/b", b(0x19))
	got, err := DecodeSubscribe(p, V5)
	if err != nil {
		t.Fatal(err)
	}
	clear(p)
	want := &Subscribe{PacketID: 7, ID: 128, Filters: []Filter{{"a", 0x2e}, {"$share/g/b", 0x19}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a, b := got.Filters[0], got.Filters[1]
	if a.QoS() != 2 || !a.NoLocal() || !a.RetainAsPublished() || a.RetainHandling() != 2 {
		t.Errorf("options %#x are taken apart wrongly", a.Options)
	}
	if b.QoS() != 1 || b.NoLocal() || !b.RetainAsPublished() || b.RetainHandling() != 1 {
		t.Errorf("options %#x are taken apart wrongly", b.Options)
	}
}

// TestDecodeSmall wants the values of the packets that hold few.
func TestDecodeSmall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		decode func(p []byte, version byte) (any, error)
		packet []byte
		want   any
	}{
		{unsubscribe, pkt(0xa2, id7, props(), "a", "b"), &Unsubscribe{PacketID: 7, Filters: []string{"a", "b"}}},
		{ack, pkt(0x50, id7, b(0x87)), Ack{Type: TypePubrec, PacketID: 7, Reason: ReasonNotAuthorized}},
		{ack, pkt(0x62, id7), Ack{Type: TypePubrel, PacketID: 7}},
		{disconnect, pkt(0xe0, b(4), props(b(0x11, 0, 0, 0, 9))), Disconnect{Reason: 4, SessionExpiry: 9, HasSessionExpiry: true}},
	} {
		got, err := tt.decode(tt.packet, V5)
		if err != nil {
			t.Errorf("% x: %v", tt.packet, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("% x (-want +got):\n%s", tt.packet, diff)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		give   []byte
		want   int
		faulty bool
	}{
		{nil, 0, false},
		{b(0x30), 0, false},
		{b(0x30, 0), 2, false},
		{b(0x30, 0x7f), 129, false},
		{b(0x30, 0x80), 0, false},
		{b(0x30, 0x80, 1), 131, false},
		{b(0x30, 0x80, 0), 0, true},
		{b(0x30, 0xff, 0xff, 0xff), 0, false},
		{b(0x30, 0xff, 0xff, 0xff, 0x7f), 268435460, false},
		{b(0x30, 0xff, 0xff, 0xff, 0x80), 0, true},
		{b(0x30, 0x80, 0x80, 0x80, 0), 0, true},
		{b(0x30, 0xff, 0xff, 0xff, 0xff, 1), 0, true},
	} {
		got, err := Size(tt.give)
		if got != tt.want || (reasonOf(t, err) == ReasonMalformed) != tt.faulty {
			t.Errorf("Size(% x): got %d, %v, want %d, faulty %t", tt.give, got, err, tt.want, tt.faulty)
		}
	}
}

// filters lists topic filters and whether they are valid [MQTT 4.7.1] [MQTT 4.8.2].
var filters = map[string]bool{
	"#": true, "+": true, "/": true, "//": true, "+/+": true, "a/#": true, "a/+/b": true, "+/": true, "$SYS/#": true, "$sharex/a": true,
	"": false, "a#": false, "a+": false, "+a": false, "a/+b": false, "a/#/b": false, "a/#/": false, "##": false, "#/": false, "++": false, "/#a": false,
	"$share/g/a": true, "$share/g/#": true, "$share/g//": true, "$share/g/+/b": true, "$share/g/$SYS/#": true,
	"$share": false, "$share/": false, "$share/g": false, "$share/g/": false, "$share//a": false, "$share/g+/a": false, "$share/#/a": false, "$share/g/a#": false,
}

// validTopic reports whether messages may be published to a topic of that name.
func validTopic(topic []byte) bool {
	return len(topic) <= maxText && validText(topic) && topicFault(topic) == nil
}

func TestValidFilter(t *testing.T) {
	t.Parallel()
	for filter, want := range filters {
		if got := ValidFilter(filter); got != want {
			t.Errorf("ValidFilter(%q): got %t, want %t", filter, got, want)
		}
	}
	for _, text := range slices.Collect(maps.Values(badTexts)) {
		if ValidFilter(text) || validTopic([]byte(text)) {
			t.Errorf("%q is taken", text)
		}
	}
	for _, text := range goodTexts {
		if !ValidFilter(text) || !validTopic([]byte(text)) {
			t.Errorf("%.20q is not taken", text)
		}
	}
	long := strings.Repeat("a", maxText+1)
	if ValidFilter(long) || validTopic([]byte(long)) {
		t.Error("a topic of 65536 bytes is taken")
	}
	for _, topic := range []string{"", "#", "a/+", "a+b"} {
		if validTopic([]byte(topic)) {
			t.Errorf("validTopic(%q): got true", topic)
		}
	}
}

func TestSplitShared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filter, share, rest string
		shared              bool
	}{
		{"$share/g/a/b", "g", "a/b", true},
		{"$share/g//", "g", "/", true},
		{"a/b", "", "a/b", false},
		{"$sharex/g/a", "", "$sharex/g/a", false},
		{"$share/g", "", "$share/g", false},
	} {
		if share, rest, shared := SplitShared(tt.filter); share != tt.share || rest != tt.rest || shared != tt.shared {
			t.Errorf("SplitShared(%q): got %q, %q, %t", tt.filter, share, rest, shared)
		}
	}
}
