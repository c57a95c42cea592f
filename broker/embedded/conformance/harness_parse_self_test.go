package conformance

import (
	"bufio"
	"bytes"
	"testing"
)

// TestParse shows that the harness detects invalid packets.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version byte
		packet  []byte
		wrong   bool
	}{
		"CONNACK":                        {v311, []byte{0x20, 2, 0, 0}, false},
		"CONNACK of MQTT 5 before that":  {v311, []byte{0x20, 3, 0, 0, 0}, true},
		"CONNACK before MQTT 5 in that":  {v5, []byte{0x20, 2, 0, 0}, true},
		"PUBLISH":                        {v5, publish{topic: "a", qos: 1, id: 1, props: willProperties()}.bytes(v5), false},
		"PUBLISH cut in its topic":       {v311, []byte{0x30, 3, 0, 2, 'a'}, true},
		"PUBLISH without identifier":     {v311, []byte{0x32, 3, 0, 1, 'a'}, true},
		"PUBLISH with unknown property":  {v5, publish{topic: "a", props: []byte{0x04, 0}}.bytes(v5), true},
		"PUBLISH with half a property":   {v5, publish{topic: "a", props: []byte{0x02, 0}}.bytes(v5), true},
		"PUBLISH with its length beyond": {v5, []byte{0x30, 4, 0, 1, 'a', 9}, true},
		"PUBACK":                         {v5, []byte{0x40, 2, 0, 1}, false},
		"PUBACK with more than it has":   {v5, []byte{0x40, 5, 0, 1, 0, 0, 0}, true},
		"PUBACK with reason before five": {v311, []byte{0x40, 3, 0, 1, 0}, true},
		"PINGRESP":                       {v311, pingresp(), false},
		"PINGRESP with a body":           {v311, []byte{0xd0, 1, 0}, true},
		"DISCONNECT":                     {v5, []byte{0xe0, 1, 0x8e}, false},
		"DISCONNECT before MQTT 5":       {v311, []byte{0xe0, 0}, true},
		"UNSUBACK with codes before":     {v311, []byte{0xb0, 3, 0, 1, 0}, true},
		"SUBSCRIBE from a server":        {v311, []byte{0x82, 0}, true},
		"CONNACK with another's reason":  {v5, []byte{0x20, 3, 0, 0x8e, 0}, true},
		"CONNACK with an unknown code":   {v311, []byte{0x20, 2, 0, 6}, true},
		"PUBACK with PUBREL's reason":    {v5, []byte{0x40, 3, 0, 1, 0x92}, true},
		"PUBREC without subscribers":     {v5, []byte{0x50, 3, 0, 1, 0x10}, false},
		"PUBREL with PUBACK's reason":    {v5, []byte{0x62, 3, 0, 1, 0x87}, true},
		"SUBACK with reserved codes":     {v311, []byte{0x90, 3, 0, 1, 0x87}, true},
		"SUBACK that refuses":            {v5, []byte{0x90, 4, 0, 1, 0, 0x87}, false},
		"UNSUBACK with SUBACK's reason":  {v5, []byte{0xb0, 4, 0, 1, 0, 0x97}, true},
		"DISCONNECT as a client's":       {v5, []byte{0xe0, 1, 0x04}, true},
		"a property length not minimal":  {v5, []byte{0x30, 5, 0, 1, 'a', 0x80, 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p := parse(c.version, c.packet); (p.malformed != nil) != c.wrong {
				t.Errorf("got %v", p)
			}
		})
	}
}

// TestReadPacket shows that a remaining length has only one form.
func TestReadPacket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw   []byte
		wrong bool
	}{
		"PINGRESP":             {pingresp(), false},
		"two bytes":            {frame(typePublish, text("a"), make([]byte, 125)), false},
		"more than it needs":   {[]byte{0xd0, 0x80, 0}, true},
		"more than four bytes": {[]byte{0xd0, 0x80, 0x80, 0x80, 0x80, 1}, true},
		"cut short":            {[]byte{0xd0, 0x80}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p, err := readPacket(bufio.NewReader(bytes.NewReader(c.raw))); (err != nil) != c.wrong || !c.wrong && !bytes.Equal(p, c.raw) {
				t.Errorf("got % x, %v", p, err)
			}
		})
	}
}

// TestPacketString shows that packets that differ in anything that matters have different
// strings, and others the same.
func TestPacketString(t *testing.T) {
	t.Parallel()
	m := publish{topic: "a", payload: "b", qos: 1, id: 1, props: cat(user("a", "1"), user("b", "2"), propByte(payloadFormat, 1))}
	same := m
	same.props = cat(propByte(payloadFormat, 1), user("a", "1"), user("b", "2"))
	if a, b := parse(v5, m.bytes(v5)).String(), parse(v5, same.bytes(v5)).String(); a != b {
		t.Errorf("the order of different properties counts: %s, %s", a, b)
	}
	for name, change := range map[string]func(*publish){
		"topic":      func(p *publish) { p.topic = "A" },
		"payload":    func(p *publish) { p.payload = "" },
		"QoS":        func(p *publish) { p.qos = 2 },
		"DUP":        func(p *publish) { p.dup = true },
		"RETAIN":     func(p *publish) { p.retain = true },
		"identifier": func(p *publish) { p.id = 2 },
		"order":      func(p *publish) { p.props = cat(user("b", "2"), user("a", "1"), propByte(payloadFormat, 1)) },
		"property":   func(p *publish) { p.props = cat(user("a", "1"), user("b", "2")) },
	} {
		other := m
		change(&other)
		if a, b := parse(v5, m.bytes(v5)).String(), parse(v5, other.bytes(v5)).String(); a == b {
			t.Errorf("%s does not count: %s", name, a)
		}
	}
}
