package packet

// Connect is a CONNECT.
type Connect struct {
	Version     byte // of MQTT, without the bit of a bridge
	Bridge      bool // a bridge of Mosquitto's kind says that it is one
	CleanStart  bool // Clean Session before MQTT 5
	KeepAlive   uint16
	ClientID    string
	HasUsername bool
	HasPassword bool
	Username    string
	Password    []byte
	Will        *Will // nil for none

	SessionExpiry       uint32 // seconds; 4294967295 never
	HasSessionExpiry    bool
	ReceiveMaximum      uint16 // 65535 where it is left out
	MaximumPacketSize   uint32 // bytes, 0 for no limit
	TopicAliasMaximum   uint16
	RequestProblemInfo  bool // true where it is left out
	RequestResponseInfo bool
	AuthMethod          string
	HasAuthMethod       bool
	Peer                string // name of a bridge's own broker, in the user property BridgeProperty; "" for none
}

// Will is the message that a client leaves to be published for it.
type Will struct {
	Topic      string
	Payload    []byte
	Properties []byte // those to pass on, encoded, without their length; no delay and no expiry among them
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

// BridgeProperty is the name of the user property that bridges of this service
// know each other by: in CONNECT and CONNACK it holds the name of the broker that
// speaks, in a message where it has been.
const BridgeProperty = "signalbox-bridge"

// bridgeBit is set in the version by bridges of Mosquitto's kind, in MQTT 3.1
// and 3.1.1.
const bridgeBit = 0x80

// DecodeConnect decodes a CONNECT. Nothing in it is a part of p.
//
// Next to an *Error there is a Connect with no more than its Version and Bridge,
// so that the client can be answered in its own version; Version is 0 where the
// packet does not even begin as one of MQTT. With ReasonUnsupportedVersion,
// Version is what the client sent.
func DecodeConnect(p []byte) (*Connect, error) {
	g := connectGate{cursor: open(p, TypeConnect)}
	body := g.rest
	g.version()
	if g.Version != V31 && g.fault == nil && p[0]&0x0f != 0 { // [MQTT-2.1.3-1]
		g.fail(errFlags)
	}
	g.walk()
	fault := g.end()
	if fault == nil {
		fault = g.decode(body)
	}
	if fault != nil {
		return &Connect{Version: g.Version, Bridge: g.Bridge}, fault
	}
	return &g.Connect, nil
}
