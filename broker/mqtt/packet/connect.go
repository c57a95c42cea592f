package packet

// Connect is a CONNECT.
type Connect struct {
	Version     byte // of MQTT, without the bit of a bridge
	Bridge      bool // it is a bridge, as Mosquitto's bridges indicate by a bit of the version
	CleanStart  bool
	KeepAlive   uint16
	ClientID    string
	HasUsername bool
	HasPassword bool
	Username    string
	Password    []byte
	Will        *Will // nil for none

	SessionExpiry       uint32 // seconds; 4294967295 never
	HasSessionExpiry    bool
	ReceiveMaximum      uint16 // 65535 by default
	MaximumPacketSize   uint32 // bytes, 0 for no limit
	TopicAliasMaximum   uint16
	RequestProblemInfo  bool // true by default
	RequestResponseInfo bool
	AuthMethod          string
	HasAuthMethod       bool
	Peer                string // name of a bridge's own broker, in the user property BridgeProperty; "" for none
}

// Will is a client's Will message.
type Will struct {
	Topic      string
	Payload    []byte
	Properties []byte // to forward, encoded, without their length, delay and expiry
	QoS        byte
	Retain     bool
	Delay      uint32 // seconds
	Expiry     uint32 // seconds
	HasExpiry  bool
}

// The flags of CONNECT [MQTT 3.1.2.3].
const (
	flagReserved   = 1 << 0
	flagCleanStart = 1 << 1
	flagWill       = 1 << 2
	flagWillQoS    = 3 << 3
	flagWillRetain = 1 << 5
	flagPassword   = 1 << 6
	flagUsername   = 1 << 7
)

// BridgeProperty is the name of a user property between bridges of this service: in CONNECT
// and CONNACK it holds the name of the sending broker, in a message the brokers it has passed.
const BridgeProperty = "signalbox-bridge"

// bridgeBit is set in the version by Mosquitto's bridges, in MQTT 3.1 and 3.1.1.
const bridgeBit = 0x80

// DecodeConnect decodes a CONNECT. The result does not refer to p.
//
// With an *Error it returns a Connect with Version and Bridge only, so that the response can use
// the client's version; Version is 0 if the packet does not begin like MQTT. With
// ReasonUnsupportedVersion, Version is what the client sent.
func DecodeConnect(p []byte) (*Connect, error) {
	g := connectDecoder{cursor: openPacket(p, TypeConnect)}
	body := g.rest
	g.version()
	if g.Version != V31 && g.fault == nil && p[0]&0x0f != 0 { // [MQTT-2.1.3-1]
		g.fail(errFlags)
	}
	g.readPayload()
	fault := g.end()
	if fault == nil {
		fault = g.decode(body)
	}
	if fault != nil {
		return &Connect{Version: g.Version, Bridge: g.Bridge}, fault
	}
	return &g.Connect, nil
}
