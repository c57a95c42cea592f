package packet

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAppendPacket compares the packets of a client with the bytes that the standard
// prescribes.
func TestAppendPacket(t *testing.T) {
	t.Parallel()
	will := Will{Topic: "w", Payload: []byte("bye"), QoS: 1, Retain: true, Properties: Properties{WillDelay: 2}}
	user := []UserProperty{{"k", "v"}}
	for name, c := range map[string]struct {
		give    Packet
		version byte
		want    string
	}{
		"connect, 3.1": {Packet{Type: Connect, Connect: ConnectFields{ClientID: "c", CleanStart: true, KeepAlive: 60}}, V31,
			"\x10\x0f\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x01c"},
		"connect, 3.1.1, with everything": {Packet{Type: Connect, Connect: ConnectFields{ClientID: "c", HasUsername: true, Username: "u",
			HasPassword: true, HasWill: true, Will: will}}, V311,
			"\x10\x1a\x00\x04MQTT\x04\xec\x00\x00\x00\x01c\x00\x01w\x00\x03bye\x00\x01u\x00\x00"},
		"connect, 5, with everything": {Packet{Type: Connect, Properties: Properties{SessionExpiry: 1, ReceiveMaximum: 3, MaximumPacketSize: 9, User: user},
			Connect: ConnectFields{ClientID: "c", HasWill: true, Will: will}}, V5,
			"\x10\x30\x00\x04MQTT\x05\x2c\x00\x00\x14\x11\x00\x00\x00\x01\x27\x00\x00\x00\x09\x21\x00\x03\x26\x00\x01k\x00\x01v" +
				"\x00\x01c\x05\x18\x00\x00\x00\x02\x00\x01w\x00\x03bye"},
		"publish, 3.1.1": {Packet{Type: Publish, Topic: "t", Payload: []byte("hi"), QoS: 1, ID: 7, Dup: true}, V311, "\x3a\x07\x00\x01t\x00\x07hi"},
		"publish, 5": {Packet{Type: Publish, Topic: "t", Payload: []byte("hi"), Retain: true, Properties: Properties{PayloadFormat: new(byte(1)),
			MessageExpiry: 2, ContentType: "a", ResponseTopic: "b", CorrelationData: []byte("c"), TopicAlias: 4}}, V5,
			"\x31\x1c\x00\x01t\x16\x01\x01\x02\x00\x00\x00\x02\x23\x00\x04\x03\x00\x01a\x08\x00\x01b\x09\x00\x01chi"},
		"acknowledgement, 5":                  {Packet{Type: Pubrel, ID: 0x0203}, V5, "\x62\x02\x02\x03"},
		"acknowledgement with a reason, 5":    {Packet{Type: Pubrec, ID: 7, Reason: QuotaExceeded}, V5, "\x50\x04\x00\x07\x97\x00"},
		"acknowledgement with a reason, 3.11": {Packet{Type: Pubrec, ID: 7, Reason: QuotaExceeded}, V311, "\x50\x02\x00\x07"},
		"subscribe, 3.1.1":                    {Packet{Type: Subscribe, ID: 7, Filters: []Filter{{Filter: "a", QoS: 2}, {Filter: "b"}}}, V311, "\x82\x0a\x00\x07\x00\x01a\x02\x00\x01b\x00"},
		"subscribe, 5": {Packet{Type: Subscribe, ID: 7, Properties: Properties{SubscriptionIDs: []uint32{200}},
			Filters: []Filter{{Filter: "a", QoS: 1, NoLocal: true, RetainAsPublished: true, RetainHandling: 2}}}, V5, "\x82\x0a\x00\x07\x03\x0b\xc8\x01\x00\x01a\x2d"},
		"unsubscribe, 5":             {Packet{Type: Unsubscribe, ID: 7, Filters: []Filter{{Filter: "a"}}}, V5, "\xa2\x06\x00\x07\x00\x00\x01a"},
		"ping":                       {Packet{Type: Pingreq}, V5, "\xc0\x00"},
		"disconnect, 5":              {Packet{Type: Disconnect}, V5, "\xe0\x00"},
		"disconnect with a reason":   {Packet{Type: Disconnect, Reason: 4}, V5, "\xe0\x02\x04\x00"},
		"disconnect, 3.1.1":          {Packet{Type: Disconnect, Reason: 4}, V311, "\xe0\x00"},
		"disconnect with a property": {Packet{Type: Disconnect, Properties: Properties{SessionExpiry: 1}}, V5, "\xe0\x07\x00\x05\x11\x00\x00\x00\x01"},
	} {
		if got := string(c.give.Append(nil, c.version)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestDecode decodes packets of a server.
func TestDecode(t *testing.T) {
	t.Parallel()
	for give, c := range map[string]struct {
		version byte
		want    Packet
	}{
		"\x20\x01\x05":     {V311, Packet{Type: Connack, Present: true, Reason: 5}},
		"\x20\x00\x87\x00": {V5, Packet{Type: Connack, Reason: NotAuthorized}},
		"\x20\x00\x00\x20\x27\x00\x00\x13\x88\x12\x00\x01i\x13\x00\x0a\x21\x00\x14\x22\x00\x0a\x24\x01\x25\x01\x28\x01\x29\x01\x2a\x01\x1f\x00\x01r": {V5,
			Packet{Type: Connack, Properties: Properties{MaximumPacketSize: 5000, AssignedClientID: "i", ServerKeepAlive: 10, ReceiveMaximum: 20, ReasonString: "r"}}},
		"\x3d\x00\x01t\x00\x07hi": {V311, Packet{Type: Publish, Topic: "t", ID: 7, QoS: 2, Retain: true, Dup: true, Payload: []byte("hi")}},
		"\x30\x00\x01t\x19\x01\x00\x02\x00\x00\x00\x09\x0b\x07\x0b\xc8\x01\x26\x00\x01k\x00\x01v\x26\x00\x01k\x00\x00hi": {V5,
			Packet{Type: Publish, Topic: "t", Payload: []byte("hi"), Properties: Properties{PayloadFormat: new(byte), MessageExpiry: 9,
				SubscriptionIDs: []uint32{7, 200}, User: []UserProperty{{"k", "v"}, {"k", ""}}}}},
		"\x40\x00\x07":                      {V311, Packet{Type: Puback, ID: 7}},
		"\x40\x00\x07\x10":                  {V5, Packet{Type: Puback, ID: 7, Reason: 0x10}},
		"\x62\x00\x07\x92\x00":              {V5, Packet{Type: Pubrel, ID: 7, Reason: 0x92}},
		"\x90\x00\x07\x00\x80":              {V311, Packet{Type: Suback, ID: 7, Reasons: []byte{0, 0x80}}},
		"\x90\x00\x07\x04\x1f\x00\x01r\x87": {V5, Packet{Type: Suback, ID: 7, Reasons: []byte{0x87}, Properties: Properties{ReasonString: "r"}}},
		"\xb0\x00\x07":                      {V311, Packet{Type: Unsuback, ID: 7}},
		"\xb0\x00\x07\x00\x11":              {V5, Packet{Type: Unsuback, ID: 7, Reasons: []byte{0x11}}},
		"\xd0":                              {V5, Packet{Type: Pingresp}},
		"\xe0\x8e":                          {V5, Packet{Type: Disconnect, Reason: SessionTakenOver}},
		"\xe0":                              {V5, Packet{Type: Disconnect}},
	} {
		got, err := Decode(give[0], []byte(give[1:]), c.version)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", give, err, diff)
		}
	}
}

// TestDecode_refuses expects errors for packets that a server must not send.
func TestDecode_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		give    string
		version byte
		want    error
	}{
		"a request":                          {"\xc0", V5, errMalformedPacket},
		"flags that are reserved":            {"\x41\x00\x07", V5, errMalformedPacket},
		"a short CONNACK":                    {"\x20\x00", V311, errMalformedPacket},
		"CONNACK with reserved flags":        {"\x20\x02\x00", V311, errMalformedPacket},
		"bytes after CONNACK":                {"\x20\x00\x00\x00", V311, errMalformedPacket},
		"CONNACK without properties, 5":      {"\x20\x00\x00", V5, errProperties},
		"a short PUBLISH":                    {"\x30\x00\x02t", V311, errMalformedPacket},
		"PUBLISH of QoS 3":                   {"\x36\x00\x01t\x00\x07", V311, errMalformedPacket},
		"a topic that is not UTF-8":          {"\x30\x00\x01\xff", V311, errMalformedPacket},
		"properties that are too long":       {"\x30\x00\x01t\x05\x01\x01", V5, errProperties},
		"an unknown property":                {"\x30\x00\x01t\x02\x70\x01", V5, errProperties},
		"a property of another packet":       {"\x30\x00\x01t\x03\x21\x00\x01", V5, errProperties},
		"a property twice":                   {"\x30\x00\x01t\x04\x01\x01\x01\x01", V5, errProperties},
		"half a property":                    {"\x30\x00\x01t\x03\x02\x00\x00", V5, errMalformedPacket},
		"a property that is not UTF-8":       {"\x30\x00\x01t\x04\x03\x00\x01\xff", V5, errMalformedPacket},
		"an endless subscription identifier": {"\x30\x00\x01t\x06\x0b\xff\xff\xff\xff\x01", V5, errMalformedPacket},
		"an acknowledgement without an id":   {"\x40\x00", V5, errMalformedPacket},
		"a reason before version 5":          {"\x40\x00\x07\x10", V311, errMalformedPacket},
		"bytes after a reason":               {"\x40\x00\x07\x10\x00\x00", V5, errMalformedPacket},
		"codes of UNSUBACK before version 5": {"\xb0\x00\x07\x00", V311, errMalformedPacket},
		"a body of PINGRESP":                 {"\xd0\x00", V5, errMalformedPacket},
	} {
		if got, err := Decode(c.give[0], []byte(c.give[1:]), c.version); !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, c.want)
		}
	}
}

// FuzzDecode checks that decoding ends on any input.
func FuzzDecode(f *testing.F) {
	f.Add(byte(0x30), []byte("\x00\x01t\x09\x01\x00\x26\x00\x01k\x00\x00hi"), byte(V5))
	f.Add(byte(0x20), []byte("\x00\x00\x03\x21\x00\x14"), byte(V5))
	f.Fuzz(func(t *testing.T, first byte, body []byte, version byte) {
		if p, err := Decode(first, body, version); err == nil && Kind(p.Type) != Kind(first) {
			t.Errorf("%#x decodes as %#x", first, p.Type)
		}
	})
}
