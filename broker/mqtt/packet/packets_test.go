package packet

import (
	"encoding/binary"
	"strings"
)

// b returns bytes, body a payload.
func b(bytes ...byte) []byte    { return bytes }
func body(text string) []byte   { return []byte(text) }
func props(parts ...any) []byte { return sized(join(parts)) }

// pkt returns a packet with a correct length: a first byte, and parts which are strings with
// their length, or bytes.
func pkt(first byte, parts ...any) []byte {
	return append([]byte{first}, sized(join(parts))...)
}

func sized(body []byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

func join(parts []any) (all []byte) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			all = append(binary.BigEndian.AppendUint16(all, uint16(len(part))), part...)
		case []byte:
			all = append(all, part...)
		}
	}
	return all
}

// connect builds a CONNECT up to its keep-alive, with parts behind.
func connect(version, flags byte, parts ...any) []byte {
	name := "MQTT"
	if version == V31 {
		name = "MQIsdp"
	}
	return pkt(0x10, append([]any{name, b(version, flags, 0, 60)}, parts...)...)
}

// hello returns a valid CONNECT.
func hello(version byte) []byte {
	if version == V5 {
		return connect(V5, 2, props(), "probe")
	}
	return connect(version, 2, "probe")
}

// Outcomes of Mosquitto 2.0.11 that differ from this package and are not reason codes.
const (
	alike   = 0
	silent  = 0xfe // it closes the connection without a reason
	lenient = 0xff // it accepts the packet
)

// sample is a packet of a client and the expected outcome.
type sample struct {
	name      string // with the clause of MQTT 5
	version   byte
	packet    []byte
	reason    byte // 0 if it is valid
	mosquitto byte // Mosquitto's reason code, or one of the above
}

// user is a user property.
var user = join([]any{b(0x26), "k", "v"})

// badTexts are not UTF-8 strings [MQTT-1.5.4-1] [MQTT-1.5.4-2], or ones that [MQTT-1.5.4]
// allows to reject.
var badTexts = map[string]string{
	"NUL":                   "a\x00",
	"control":               "a\x01",
	"delete":                "a\x7f",
	"C1 control":            "a\u0085",
	"surrogate":             "a\xed\xa0\x80",
	"overlong":              "a\xc1\x81",
	"beyond U+10FFFF":       "a\xf4\x90\x80\x80",
	"cut short":             "a\xe2\x82",
	"stray continuation":    "a\x80",
	"non-character U+FFFE":  "a\ufffe",
	"non-character U+1FFFF": "a\U0001ffff",
	"non-character U+FDD0":  "a\ufdd0",
}

// goodTexts are UTF-8 strings that look odd [MQTT-1.5.4-3].
var goodTexts = []string{"a", " ", "a b", "é", "\ufeffa", "日本語", "\U0001f600", "\ufffd", "a/b/", "/", strings.Repeat("a", maxText)}

var connectSamples = []sample{
	{"plain", V31, hello(V31), 0, 0},
	{"plain", V311, hello(V311), 0, 0},
	{"plain", V5, hello(V5), 0, 0},
	{"bridge", V31, pkt(0x10, "MQIsdp", b(0x83, 2, 0, 60), "probe"), 0, 0},
	{"bridge", V311, pkt(0x10, "MQTT", b(0x84, 2, 0, 60), "probe"), 0, 0},
	{"bridge of MQTT 5 does not exist", V5, pkt(0x10, "MQTT", b(0x85, 2, 0, 60, 0), "probe"), ReasonUnsupportedVersion, silent},
	{"long client id", V31, connect(V31, 2, strings.Repeat("x", 40)), 0, 0},
	{"name and level of different versions [MQTT-3.1.2-2]", V311, pkt(0x10, "MQTT", b(3, 2, 0, 60), "probe"), ReasonUnsupportedVersion, 1},
	{"name and level of different versions [MQTT-3.1.2-2]", V311, pkt(0x10, "MQIsdp", b(4, 2, 0, 60), "probe"), ReasonUnsupportedVersion, 1},
	{"version 6 [MQTT-3.1.2-2]", V5, connect(6, 2, props(), "probe"), ReasonUnsupportedVersion, 1},
	{"another protocol [MQTT-3.1.2-1]", V311, pkt(0x10, "HTTP", b(4, 2, 0, 60), "probe"), ReasonProtocolError, silent},
	{"flags of the header [MQTT-2.1.3-1]", V31, pkt(0x12, "MQIsdp", b(3, 2, 0, 60), "probe"), 0, 0},
	{"flags of the header [MQTT-2.1.3-1]", V311, pkt(0x12, "MQTT", b(4, 2, 0, 60), "probe"), ReasonMalformed, silent},
	{"reserved flag", V31, connect(V31, 3, "probe"), 0, 0},
	{"reserved flag [MQTT-3.1.2-3]", V311, connect(V311, 3, "probe"), ReasonMalformed, silent},
	{"reserved flag [MQTT-3.1.2-3]", V5, connect(V5, 3, props(), "probe"), ReasonMalformed, silent},
	{"Will", V311, connect(V311, 0x36, "probe", "t", "p"), 0, 0},
	{"Will", V5, connect(V5, 0x36, props(), "probe", props(), "t", "p"), 0, 0},
	{"Will at QoS 3 [MQTT-3.1.2-12]", V31, connect(V31, 0x1e, "probe", "t", "p"), ReasonMalformed, silent},
	{"Will at QoS 3 [MQTT-3.1.2-12]", V5, connect(V5, 0x1e, props(), "probe", props(), "t", "p"), ReasonMalformed, silent},
	{"QoS without a Will", V31, connect(V31, 0x0a, "probe"), 0, 0},
	{"QoS without a Will [MQTT-3.1.2-11]", V311, connect(V311, 0x0a, "probe"), ReasonMalformed, silent},
	{"RETAIN without a Will [MQTT-3.1.2-13]", V5, connect(V5, 0x22, props(), "probe"), ReasonMalformed, silent},
	{"Will without a payload", V5, connect(V5, 6, props(), "probe", props(), "t", ""), 0, 0},
	{"Will that is missing [MQTT-3.1.2-9]", V311, connect(V311, 6, "probe"), ReasonMalformed, silent},
	{"Will to a wildcard [MQTT-3.3.2-2]", V5, connect(V5, 6, props(), "probe", props(), "t/#", "p"), ReasonProtocolError, silent},
	{"Will to nothing [MQTT-4.7.3-1]", V311, connect(V311, 6, "probe", "", "p"), ReasonProtocolError, silent},
	{"password without username [MQTT-3.1.2-22]", V31, connect(V31, 0x42, "probe", "pw"), ReasonProtocolError, silent},
	{"password without username [MQTT-3.1.2-22]", V311, connect(V311, 0x42, "probe", "pw"), ReasonProtocolError, silent},
	{"password without username", V5, connect(V5, 0x42, props(), "probe", "pw"), 0, 0},
	{"empty username and password", V5, connect(V5, 0xc2, props(), "probe", "", ""), 0, 0},
	{"username that is missing", V31, connect(V31, 0x82, "probe"), 0, 0},
	{"password that is missing", V31, connect(V31, 0xc2, "probe", "u"), 0, 0},
	{"username that is missing [MQTT-3.1.2-17]", V311, connect(V311, 0x82, "probe"), ReasonMalformed, silent},
	{"password that is missing [MQTT-3.1.2-19]", V5, connect(V5, 0xc2, props(), "probe", "u"), ReasonMalformed, silent},
	{"surplus bytes", V31, connect(V31, 2, "probe", b(0)), ReasonMalformed, silent},
	{"surplus bytes [MQTT-3.1.2-16]", V311, connect(V311, 2, "probe", "u"), ReasonMalformed, silent},
	{"surplus bytes", V5, connect(V5, 2, props(), "probe", b(0)), ReasonMalformed, silent},
	{"cut short", V5, pkt(0x10, "MQTT", b(5, 2)), ReasonMalformed, silent},
	{"cut short", V311, pkt(0x10, b(0, 4, 'M')), ReasonMalformed, silent},
	{"empty", V311, pkt(0x10), ReasonMalformed, silent},

	{"user properties", V5, connect(V5, 2, props(user, user), "probe"), 0, 0},
	{"session expiry", V5, connect(V5, 2, props(b(0x11, 0, 0, 0, 9)), "probe"), 0, 0},
	{"session expiry twice [MQTT-3.1.2.11.2]", V5, connect(V5, 2, props(b(0x11, 0, 0, 0, 9, 0x11, 0, 0, 0, 9)), "probe"), ReasonProtocolError, silent},
	{"Receive Maximum 0 [MQTT-3.1.2.11.3]", V5, connect(V5, 2, props(b(0x21, 0, 0)), "probe"), ReasonProtocolError, silent},
	{"Maximum Packet Size 0 [MQTT-3.1.2.11.4]", V5, connect(V5, 2, props(b(0x27, 0, 0, 0, 0)), "probe"), ReasonProtocolError, silent},
	{"Topic Alias Maximum 0", V5, connect(V5, 2, props(b(0x22, 0, 0)), "probe"), 0, 0},
	{"Request Response Information 2 [MQTT-3.1.2.11.6]", V5, connect(V5, 2, props(b(0x19, 2)), "probe"), ReasonProtocolError, silent},
	{"Request Problem Information 0", V5, connect(V5, 2, props(b(0x17, 0)), "probe"), 0, 0},
	{"Request Problem Information 2 [MQTT-3.1.2.11.7]", V5, connect(V5, 2, props(b(0x17, 2)), "probe"), ReasonProtocolError, silent},
	{"authentication method", V5, connect(V5, 2, props(b(0x15), "m"), "probe"), 0, ReasonBadAuthMethod},
	{"empty authentication method", V5, connect(V5, 2, props(b(0x15), ""), "probe"), 0, ReasonBadAuthMethod},
	{"authentication data alone [MQTT-3.1.2.11.10]", V5, connect(V5, 2, props(b(0x16), "d"), "probe"), ReasonProtocolError, lenient},
	{"property of another packet [MQTT-2.2.2.2]", V5, connect(V5, 2, props(b(0x01, 0)), "probe"), ReasonMalformed, silent},
	{"property of the Will", V5, connect(V5, 2, props(b(0x18, 0, 0, 0, 1)), "probe"), ReasonMalformed, silent},
	{"property of servers", V5, connect(V5, 2, props(b(0x24, 1)), "probe"), ReasonMalformed, silent},
	{"property that does not exist", V5, connect(V5, 2, props(b(0x7f, 0)), "probe"), ReasonMalformed, silent},
	{"property 0", V5, connect(V5, 2, props(b(0, 0)), "probe"), ReasonMalformed, silent},
	{"property cut short", V5, connect(V5, 2, props(b(0x11, 0, 0)), "probe"), ReasonMalformed, silent},
	{"user property without value", V5, connect(V5, 2, props(b(0x26), "k"), "probe"), ReasonMalformed, silent},
	{"properties longer than the packet", V5, connect(V5, 2, b(0x20), "probe"), ReasonMalformed, silent},
	{"properties with a long length [MQTT-1.5.5-1]", V5, connect(V5, 2, b(0x80, 0), "probe"), ReasonMalformed, silent},
	{"no properties", V5, connect(V5, 2), ReasonMalformed, silent},

	{"Will's delay and expiry", V5, connect(V5, 6, props(), "probe", props(b(0x18, 0, 0, 0, 1, 2, 0, 0, 0, 2), user), "t", "p"), 0, 0},
	{"Will's delay twice", V5, connect(V5, 6, props(), "probe", props(b(0x18, 0, 0, 0, 1, 0x18, 0, 0, 0, 1)), "t", "p"), ReasonProtocolError, silent},
	{"Will's payload format 2", V5, connect(V5, 6, props(), "probe", props(b(1, 2)), "t", "p"), ReasonProtocolError, lenient},
	{"Will's response topic with a wildcard [MQTT-3.3.2-14]", V5, connect(V5, 6, props(), "probe", props(b(8), "r/+"), "t", "p"), ReasonProtocolError, lenient},
	{"property of CONNECT in the Will", V5, connect(V5, 6, props(), "probe", props(b(0x11, 0, 0, 0, 1)), "t", "p"), ReasonMalformed, silent},
	{"alias of the Will's topic", V5, connect(V5, 6, props(), "probe", props(b(0x23, 0, 1)), "t", "p"), ReasonMalformed, silent},
}
