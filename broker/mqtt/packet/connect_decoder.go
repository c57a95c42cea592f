package packet

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// connectDecoder validates a CONNECT, and decodes the fields that mochi's decoder does not
// return.
type connectDecoder struct {
	cursor
	Connect
	flags   byte
	flagsAt int // offset after the fixed header
}

// version decodes protocol name and level [MQTT-3.1.2-1] [MQTT-3.1.2-2].
func (g *connectDecoder) version() {
	name, level := string(g.binary()), g.byte()
	switch {
	case g.fault != nil:
	case name == "MQIsdp" && level&^bridgeBit == V31, name == "MQTT" && level&^bridgeBit == V311:
		g.Version, g.Bridge = level&^bridgeBit, level&bridgeBit != 0
	case name == "MQTT" && level == V5:
		g.Version = level
	case name == "MQTT", name == "MQIsdp":
		g.Version = level
		g.fail(&Error{Reason: ReasonUnsupportedVersion, Text: "this version of MQTT does not exist, or not here"})
	default:
		g.fail(violation("the protocol is not MQTT"))
	}
	g.flagsAt = len(name) + 3
}

// readPayload decodes what follows the version [MQTT 3.1.2.3] [MQTT 3.1.3].
func (g *connectDecoder) readPayload() {
	g.flags = g.byte()
	g.checkFlags()
	g.uint16() // keep-alive
	if g.Version == V5 {
		g.readProperties()
	}
	g.text() // client identifier [MQTT-3.1.3-4]
	if g.flags&flagWill != 0 {
		g.readWill()
	}
	if g.expects(flagUsername) {
		g.text() // [MQTT-3.1.3-12]
	}
	if g.expects(flagPassword) {
		g.binary()
	}
}

// expects reports whether the field of a flag is to be decoded. In MQTT 3.1 the length takes
// precedence over the flag.
func (g *connectDecoder) expects(flag byte) bool {
	if g.Version == V31 && len(g.rest) == 0 {
		g.flags &^= flag
	}
	return g.flags&flag != 0
}

// checkFlags checks the CONNECT flags.
func (g *connectDecoder) checkFlags() {
	if g.flags&flagWill != 0 && g.flags&flagWillQoS == flagWillQoS { // [MQTT-3.1.2-12]
		g.fail(errQoS)
	}
	if g.Version != V5 && g.flags&flagPassword != 0 && g.flags&flagUsername == 0 { // [MQTT-3.1.2-22] of 3.1.1
		g.fail(violation("there is a password without a username"))
	}
	if g.Version == V31 {
		return
	}
	if g.flags&flagReserved != 0 { // [MQTT-3.1.2-3]
		g.fail(malformed("the reserved flag of CONNECT is set"))
	}
	if g.flags&flagWill == 0 && g.flags&(flagWillQoS|flagWillRetain) != 0 { // [MQTT-3.1.2-11] [MQTT-3.1.2-13]
		g.fail(malformed("there are flags of a Will, and no Will"))
	}
}

// readProperties decodes the properties of CONNECT [MQTT 3.1.2.11].
func (g *connectDecoder) readProperties() {
	w := g.properties(inConnect)
	for p, ok := w.next(); ok; p, ok = w.next() {
		if p.id == propUser && string(p.name) == BridgeProperty {
			g.Peer = string(p.bytes)
		}
	}
	g.HasAuthMethod = w.seen&(1<<propAuthMethod) != 0
	if w.seen&(1<<propAuthData) != 0 && !g.HasAuthMethod {
		w.fail(violation("there are authentication data without a method"))
	}
	g.check(w.fault)
}

// readWill decodes the Will [MQTT-3.1.3-1].
func (g *connectDecoder) readWill() {
	g.Will = &Will{QoS: g.flags & flagWillQoS >> 3, Retain: g.flags&flagWillRetain != 0}
	if g.Version == V5 {
		g.readWillProperties()
	}
	g.topic() // [MQTT-3.1.3-11]
	g.binary()
}

// readWillProperties decodes the properties of the Will [MQTT 3.1.3.2].
func (g *connectDecoder) readWillProperties() {
	w := g.properties(inWill)
	var kept forwarded
	for p, ok := w.next(); ok; p, ok = w.next() {
		switch p.id {
		case propWillDelay:
		case propMessageExpiry:
			g.Will.HasExpiry = true
		default:
			kept.add(p.raw)
		}
	}
	g.check(w.fault)
	g.Will.Properties = bytes.Clone(kept.raw)
}

// decode decodes the body with mochi's decoder. Its strings refer to its input, so everything
// kept is copied.
func (g *connectDecoder) decode(body []byte) *Error {
	if body[g.flagsAt] != g.flags {
		body = slices.Clone(body)
		body[g.flagsAt] = g.flags
	}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	if err := pk.ConnectDecode(body); err != nil {
		return errUndecodable
	}
	c := &pk.Connect
	g.CleanStart, g.KeepAlive = c.Clean, c.Keepalive
	g.ClientID = strings.Clone(c.ClientIdentifier)
	g.HasUsername, g.HasPassword = c.UsernameFlag, c.PasswordFlag
	g.Username, g.Password = string(c.Username), bytes.Clone(c.Password)
	if g.Will != nil {
		g.Will.Topic, g.Will.Payload = strings.Clone(c.WillTopic), bytes.Clone(c.WillPayload)
		g.Will.Delay, g.Will.Expiry = c.WillProperties.WillDelayInterval, c.WillProperties.MessageExpiryInterval
	}
	g.decodeProperties(&pk.Properties)
	return nil
}

func (g *connectDecoder) decodeProperties(p *packets.Properties) {
	g.SessionExpiry, g.HasSessionExpiry = p.SessionExpiryInterval, p.SessionExpiryIntervalFlag
	g.MaximumPacketSize, g.TopicAliasMaximum = p.MaximumPacketSize, p.TopicAliasMaximum
	g.RequestProblemInfo = !p.RequestProblemInfoFlag || p.RequestProblemInfo == 1
	g.RequestResponseInfo = p.RequestResponseInfo == 1
	g.AuthMethod = strings.Clone(p.AuthenticationMethod)
	g.ReceiveMaximum = cmp.Or(p.ReceiveMaximum, 65535)
}
