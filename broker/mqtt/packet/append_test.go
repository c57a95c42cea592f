package packet

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAppend compares packets with those of Mosquitto 2.0.11, or with the standard where it
// sends none.
func TestAppend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"CONNACK", AppendConnack(nil, V5, &Connack{TopicAliasMaximum: 10, ReceiveMaximum: 20}), "2009 0000 06 22000a 210014"},
		{"CONNACK with a session", AppendConnack(nil, V5, &Connack{SessionPresent: true}), "2003 0100 00"},
		{"CONNACK with all that Mosquitto restricts", AppendConnack(nil, V5, &Connack{TopicAliasMaximum: 10, ServerKeepAlive: 30, HasServerKeepAlive: true,
			AssignedClientID: "auto", RetainUnavailable: true, MaximumPacketSize: 100000, ReceiveMaximum: 20, HasMaximumQoS: true, MaximumQoS: 1}),
			"201c 0000 19 22000a 13001e 1200046175746f 2500 27000186a0 210014 2401"},
		{"CONNACK with the rest", AppendConnack(nil, V5, &Connack{Reason: ReasonNotAuthorized, AuthMethod: "m", SessionExpiry: 5, HasSessionExpiry: true,
			ReasonString: "no", ResponseInformation: "r", WildcardsUnavailable: true, SubIDsUnavailable: true, SharedUnavailable: true}),
			"201b 0087 18 1500016d 1100000005 2800 2900 2a00 1f00026e6f 1a000172"},
		{"CONNACK before MQTT 5", AppendConnack(nil, V311, &Connack{SessionPresent: true, Reason: 0, ReceiveMaximum: 20}), "2002 0100"},
		{"PUBACK", AppendAck(nil, V5, TypePuback, 7, ReasonNoMatchingSubscribers, ""), "4003 0007 10"},
		{"PUBACK that says nothing", AppendAck(nil, V5, TypePuback, 7, 0, ""), "4002 0007"},
		{"PUBACK before MQTT 5", AppendAck(nil, V311, TypePuback, 7, ReasonNotAuthorized, "no"), "4002 0007"},
		{"PUBREC with a reason string", AppendAck(nil, V5, TypePubrec, 7, ReasonQuotaExceeded, "no"), "5009 0007 97 05 1f00026e6f"},
		{"PUBREL", AppendAck(nil, V5, TypePubrel, 7, 0, ""), "6202 0007"},
		{"PUBCOMP", AppendAck(nil, V5, TypePubcomp, 7, ReasonPacketIDNotFound, ""), "7003 0007 92"},
		{"SUBACK", AppendSuback(nil, V5, 1, b(0, 0x87)), "9005 0001 00 0087"},
		{"SUBACK before MQTT 5", AppendSuback(nil, V311, 1, b(2)), "9003 0001 02"},
		{"UNSUBACK", AppendUnsuback(nil, V5, 1, b(0x11)), "b004 0001 00 11"},
		{"UNSUBACK before MQTT 5", AppendUnsuback(nil, V31, 1, b(0)), "b002 0001"},
		{"PINGREQ", AppendPingreq(nil), "c000"},
		{"PINGRESP", AppendPingresp(nil), "d000"},
		{"DISCONNECT", AppendDisconnect(nil, ReasonProtocolError, ""), "e001 82"},
		{"DISCONNECT that says nothing", AppendDisconnect(nil, 0, ""), "e000"},
		{"DISCONNECT to another server", AppendRedirect(nil, ReasonUseAnotherServer, "a:1"), "e008 9c 06 1c0003613a31"},
		{"DISCONNECT with a reason string", AppendDisconnect(nil, 0, "a"), "e006 00 04 1f000161"},
		{"PUBLISH with all", AppendPublish(nil, V5, &Outgoing{Topic: "t", Payload: body("x"), Properties: slices.Concat(b(1, 1), user), QoS: 1, PacketID: 2, Retain: true, Dup: true,
			Expiry: 100, HasExpiry: true, SubscriptionIDs: []uint32{6, 128}, Alias: 3}), "3b1d 000174 0002 16 0b06 0b8001 0101 2600016b000176 0200000064 230003 78"},
		{"PUBLISH by its alias", AppendPublish(nil, V5, &Outgoing{Topic: "t", Alias: 3, OmitTopic: true}), "3006 0000 03 230003"},
		{"PUBLISH before MQTT 5", AppendPublish(nil, V311, &Outgoing{Topic: "t", Payload: body("x"), Properties: user, SubscriptionIDs: []uint32{1}, HasExpiry: true}), "3004 000174 78"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := hex.EncodeToString(tt.got); got != strings.ReplaceAll(tt.want, " ", "") {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestAppendLong tests lengths around the limits of their width, with a packet before.
func TestAppendLong(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1 << 7, 1 << 14, 1 << 21} {
		for n := limit - 20; n < limit+5; n++ {
			o := Outgoing{Topic: "t", Payload: make([]byte, n), QoS: 2, PacketID: 0x1234}
			checkLong(t, &o)
			o.Payload, o.Properties = nil, make([]byte, n)
			checkLong(t, &o)
		}
		text := strings.Repeat("r", min(limit, maxText))
		p := AppendDisconnect(b(9), ReasonBanned, text)
		if size, err := Size(p[1:]); err != nil || size != len(p)-1 || !strings.HasSuffix(string(p), text) {
			t.Errorf("DISCONNECT with %d bytes: got Size %d, %v", len(text), size, err)
		}
	}
}

func checkLong(t *testing.T, o *Outgoing) {
	t.Helper()
	p := AppendPublish(b(1, 2, 3), V5, o)[3:]
	if size, err := Size(p); err != nil || size != len(p) || size != PublishSize(V5, o) {
		t.Errorf("PUBLISH of %d bytes: got PublishSize %d, Size %d, %v", len(p), PublishSize(V5, o), size, err)
	}
	if at := PacketIDOffset(p); p[at] != 0x12 || p[at+1] != 0x34 {
		t.Errorf("PUBLISH of %d bytes: got offset %d of the packet identifier", len(p), at)
	}
}

// TestRoundTrip decodes packets encoded for the client's side.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []*Connect{
		{Version: V31, ClientID: "c", ReceiveMaximum: 65535, RequestProblemInfo: true},
		{Version: V311, Bridge: true, CleanStart: true, KeepAlive: 300, HasUsername: true, HasPassword: true, Password: body("p"), ReceiveMaximum: 65535, RequestProblemInfo: true,
			Will: &Will{Topic: "w", Payload: body("p"), QoS: 2, Retain: true}},
		{Version: V5, ClientID: "c", Username: "u", HasUsername: true, SessionExpiry: 5, HasSessionExpiry: true, ReceiveMaximum: 3, MaximumPacketSize: 9, TopicAliasMaximum: 2,
			RequestResponseInfo: true, HasAuthMethod: true, AuthMethod: "m",
			Will: &Will{Topic: "w", Payload: []byte{}, Delay: 4, Expiry: 0, HasExpiry: true, Properties: user}},
	} {
		got, err := DecodeConnect(AppendConnect(nil, want))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("CONNECT: %v (-want +got):\n%s", err, diff)
		}
	}
	for _, version := range []byte{V31, V311, V5} {
		sub := &Subscribe{PacketID: 3, Filters: []Filter{{"a/#", 1}, {"$share/g/b", 2}}}
		if version == V5 {
			sub.ID, sub.Filters[0].Options = maxVarint, 0x2d
		}
		gotSub, err := DecodeSubscribe(AppendSubscribe(nil, version, sub), version)
		if diff := cmp.Diff(sub, gotSub); err != nil || diff != "" {
			t.Errorf("SUBSCRIBE %d: %v (-want +got):\n%s", version, err, diff)
		}
		un := &Unsubscribe{PacketID: 3, Filters: []string{"a/#", "b"}}
		gotUn, err := DecodeUnsubscribe(AppendUnsubscribe(nil, version, un), version)
		if diff := cmp.Diff(un, gotUn); err != nil || diff != "" {
			t.Errorf("UNSUBSCRIBE %d: %v (-want +got):\n%s", version, err, diff)
		}
	}
}

func TestDescribeProperties(t *testing.T) {
	t.Parallel()
	raw := join([]any{b(1, 1), user, b(3), "json", b(8), "r", b(9), "\xff\x00", b(0x26), "", ""})
	want := []Property{{PropertyPayloadFormat, "", "1"}, {PropertyUser, "k", "v"}, {PropertyContentType, "", "json"},
		{PropertyResponseTopic, "", "r"}, {PropertyCorrelationData, "", "/wA="}, {PropertyUser, "", ""}}
	got := DescribeProperties(raw)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	back, err := EncodeProperties(got)
	if err != nil || !slices.Equal(back, raw) {
		t.Errorf("got back % x, %v, want % x", back, err, raw)
	}
	if diff := cmp.Diff(want[:2], DescribeProperties(raw[:12])); diff != "" {
		t.Errorf("cut short (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Property{{PropertyMessageExpiry, "", "256"}}, DescribeProperties(b(2, 0, 0, 1, 0))); diff != "" {
		t.Errorf("expiry (-want +got):\n%s", diff)
	}
}

// TestEncodeProperties rejects what no client could send.
func TestEncodeProperties(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxText+1)
	for _, tt := range []struct {
		give    []Property
		tooLong bool
	}{
		{[]Property{{PropertyPayloadFormat, "", "2"}}, false},
		{[]Property{{PropertyPayloadFormat, "", ""}}, false},
		{[]Property{{PropertyContentType, "", long}}, true},
		{[]Property{{PropertyContentType, "", "a\x00"}}, false},
		{[]Property{{PropertyContentType, "", "a"}, {PropertyContentType, "", "a"}}, false},
		{[]Property{{PropertyResponseTopic, "", "a/#"}}, false},
		{[]Property{{PropertyResponseTopic, "", ""}}, false},
		{[]Property{{PropertyCorrelationData, "", "?"}}, false},
		{[]Property{{PropertyCorrelationData, "", strings.Repeat("YWFh", maxText/3+1)}}, true},
		{[]Property{{PropertyUser, long, "v"}}, true},
		{[]Property{{PropertyUser, "k", "\xff"}}, false},
		{[]Property{{PropertyMessageExpiry, "", "5"}}, false},
		{[]Property{{"", "", ""}}, false},
	} {
		if raw, err := EncodeProperties(tt.give); err == nil || errors.Is(err, errTooLong) != tt.tooLong {
			t.Errorf("%.60q: got % x, %v, want an error, of length %t", tt.give, cut(raw), err, tt.tooLong)
		}
	}
	if raw, err := EncodeProperties(nil); raw != nil || err != nil {
		t.Errorf("nothing is encoded as % x, %v", raw, err)
	}
}
