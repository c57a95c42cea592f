package packet

// Connack is a CONNACK. Zero values are omitted; before MQTT 5 only SessionPresent and Reason
// are encoded.
type Connack struct {
	SessionPresent       bool
	Reason               byte // before MQTT 5 a return code: 0 to 5
	TopicAliasMaximum    uint16
	ServerKeepAlive      uint16 // seconds
	HasServerKeepAlive   bool
	AssignedClientID     string
	AuthMethod           string
	SessionExpiry        uint32 // seconds; 4294967295 never
	HasSessionExpiry     bool
	RetainUnavailable    bool
	MaximumPacketSize    uint32
	ReceiveMaximum       uint16
	MaximumQoS           byte // 0 or 1
	HasMaximumQoS        bool
	ReasonString         string
	ResponseInformation  string
	ServerReference      string // host:port of other servers, separated by spaces
	WildcardsUnavailable bool
	SubIDsUnavailable    bool
	SharedUnavailable    bool
	Peer                 string // the server's name for a bridge, in the user property BridgeProperty
}

// AppendConnack appends a CONNACK. The order of its properties is Mosquitto's.
func AppendConnack(dst []byte, version byte, c *Connack) []byte {
	var flags byte
	if c.SessionPresent { // [MQTT-3.2.2-2]
		flags = 1
	}
	dst, body := begin(dst, TypeConnack, 0)
	dst = append(dst, flags, c.Reason)
	if version == V5 {
		from := len(dst)
		dst = end(c.appendProperties(dst), from)
	}
	return end(dst, body)
}

func (c *Connack) appendProperties(dst []byte) []byte {
	dst = appendNonZero16(dst, propTopicAliasMaximum, c.TopicAliasMaximum)
	if c.HasServerKeepAlive {
		dst = appendProperty16(dst, propServerKeepAlive, c.ServerKeepAlive)
	}
	dst = appendNonEmpty(dst, propAssignedClientID, c.AssignedClientID)
	dst = appendNonEmpty(dst, propAuthMethod, c.AuthMethod)
	if c.HasSessionExpiry {
		dst = appendProperty32(dst, propSessionExpiry, c.SessionExpiry)
	}
	dst = appendUnavailable(dst, propRetainAvailable, c.RetainUnavailable)
	dst = appendNonZero32(dst, propMaximumPacketSize, c.MaximumPacketSize)
	dst = appendNonZero16(dst, propReceiveMaximum, c.ReceiveMaximum)
	if c.HasMaximumQoS {
		dst = append(dst, propMaximumQoS, c.MaximumQoS)
	}
	dst = appendUnavailable(dst, propWildcardAvailable, c.WildcardsUnavailable)
	dst = appendUnavailable(dst, propSubIDAvailable, c.SubIDsUnavailable)
	dst = appendUnavailable(dst, propSharedAvailable, c.SharedUnavailable)
	dst = appendNonEmpty(dst, propReasonString, c.ReasonString)
	dst = appendNonEmpty(dst, propResponseInformation, c.ResponseInformation)
	dst = appendNonEmpty(dst, propServerReference, c.ServerReference)
	if c.Peer != "" {
		dst = appendText(appendText(append(dst, propUser), BridgeProperty), c.Peer)
	}
	return dst
}

// appendUnavailable appends that the server does not support a feature.
func appendUnavailable(dst []byte, id byte, unavailable bool) []byte {
	if !unavailable {
		return dst
	}
	return append(dst, id, 0)
}
