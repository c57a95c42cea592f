package packet

// Packet is a control packet of MQTT 3.1, 3.1.1 or 5. Each type uses the fields that it has
// in the standard; the others are ignored.
type Packet struct {
	Type byte // the first byte, as the constants; of a PUBLISH without its flags

	ID         uint16 // packet identifier
	Topic      string // of PUBLISH, like the next four
	Payload    []byte
	QoS        byte
	Retain     bool
	Dup        bool
	Reason     byte     // of CONNACK, acknowledgements and DISCONNECT
	Reasons    []byte   // of SUBACK, and of UNSUBACK in MQTT 5
	Present    bool     // Session Present of CONNACK
	Filters    []Filter // of SUBSCRIBE and UNSUBSCRIBE
	Connect    ConnectFields
	Properties Properties
}

// ConnectFields are the fields of CONNECT.
type ConnectFields struct {
	ClientID    string
	CleanStart  bool   // Clean Session before MQTT 5
	KeepAlive   uint16 // seconds
	HasUsername bool
	Username    string
	HasPassword bool
	Password    string
	HasWill     bool
	Will        Will
}

// Will is the message that is published for a client that does not disconnect.
type Will struct {
	Topic      string
	Payload    []byte
	QoS        byte
	Retain     bool
	Properties Properties
}

// Filter is a topic filter of SUBSCRIBE, with its options, or of UNSUBSCRIBE, without.
type Filter struct {
	Filter            string
	QoS               byte
	NoLocal           bool
	RetainAsPublished bool
	RetainHandling    byte
}

// options returns the subscription options [MQTT-3.8.3.1].
func (f Filter) options() byte {
	const noLocal, retainAsPublished, retainHandling = 0x04, 0x08, 4
	b := f.QoS | f.RetainHandling<<retainHandling
	if f.NoLocal {
		b |= noLocal
	}
	if f.RetainAsPublished {
		b |= retainAsPublished
	}
	return b
}

// Properties are those of MQTT 5 that tests use. The zero value of a field is not sent.
type Properties struct {
	PayloadFormat     *byte
	MessageExpiry     uint32 // seconds, like the other intervals
	ContentType       string
	ResponseTopic     string
	CorrelationData   []byte
	SubscriptionIDs   []uint32
	SessionExpiry     uint32
	AssignedClientID  string
	ServerKeepAlive   uint16
	WillDelay         uint32
	ReasonString      string
	ServerReference   string
	ReceiveMaximum    uint16
	TopicAlias        uint16
	User              []UserProperty
	MaximumPacketSize uint32
}

// UserProperty is a name with a value; there may be several of a name.
type UserProperty struct{ Name, Value string }
