package packet

// The properties of MQTT 5 [MQTT 2.2.2.2].
const (
	propPayloadFormat       byte = 0x01
	propMessageExpiry       byte = 0x02
	propContentType         byte = 0x03
	propResponseTopic       byte = 0x08
	propCorrelationData     byte = 0x09
	propSubscriptionID      byte = 0x0b
	propSessionExpiry       byte = 0x11
	propAssignedClientID    byte = 0x12
	propServerKeepAlive     byte = 0x13
	propAuthMethod          byte = 0x15
	propAuthData            byte = 0x16
	propRequestProblemInfo  byte = 0x17
	propWillDelay           byte = 0x18
	propRequestResponseInfo byte = 0x19
	propResponseInformation byte = 0x1a
	propServerReference     byte = 0x1c
	propReasonString        byte = 0x1f
	propReceiveMaximum      byte = 0x21
	propTopicAliasMaximum   byte = 0x22
	propTopicAlias          byte = 0x23
	propMaximumQoS          byte = 0x24
	propRetainAvailable     byte = 0x25
	propUser                byte = 0x26
	propMaximumPacketSize   byte = 0x27
	propWildcardAvailable   byte = 0x28
	propSubIDAvailable      byte = 0x29
	propSharedAvailable     byte = 0x2a
)

// packetSet is a bit set of packet types with properties.
type packetSet uint16

const (
	inWill        packetSet = 1 // a part of CONNECT
	inConnect               = 1 << packetSet(TypeConnect)
	inPublish               = 1 << packetSet(TypePublish)
	inAcks                  = 1<<packetSet(TypePuback) | 1<<packetSet(TypePubrec) | 1<<packetSet(TypePubrel) | 1<<packetSet(TypePubcomp)
	inSubscribe             = 1 << packetSet(TypeSubscribe)
	inUnsubscribe           = 1 << packetSet(TypeUnsubscribe)
	inDisconnect            = 1 << packetSet(TypeDisconnect)
	inAuth                  = 1 << packetSet(TypeAuth)
	inMessage               = inPublish | inWill
)

// form is the encoding of a property and the bounds of its value.
type form byte

const (
	formFlag        form = iota // a byte, 0 or 1
	formUint16                  // two bytes
	formCount16                 // two bytes, not 0
	formAlias                   // two bytes, not 0, with a reason code of its own
	formUint32                  // four bytes
	formCount32                 // four bytes, not 0
	formCountVarint             // a variable byte integer, not 0
	formText                    // UTF-8
	formTopic                   // UTF-8, a topic name
	formBinary                  // bytes
	formPair                    // two texts
)

// known lists the encoding of every property that a client may send, and the packets that may
// contain it. All others are sent by servers only.
var known = [...]struct {
	form form
	in   packetSet
}{
	propPayloadFormat:       {formFlag, inMessage},
	propMessageExpiry:       {formUint32, inMessage},
	propContentType:         {formText, inMessage},
	propResponseTopic:       {formTopic, inMessage}, // [MQTT-3.3.2-14]
	propCorrelationData:     {formBinary, inMessage},
	propSubscriptionID:      {formCountVarint, inPublish | inSubscribe},
	propSessionExpiry:       {formUint32, inConnect | inDisconnect},
	propAuthMethod:          {formText, inConnect | inAuth},
	propAuthData:            {formBinary, inConnect | inAuth},
	propRequestProblemInfo:  {formFlag, inConnect},
	propWillDelay:           {formUint32, inWill},
	propRequestResponseInfo: {formFlag, inConnect},
	propReasonString:        {formText, inAcks | inDisconnect | inAuth},
	propReceiveMaximum:      {formCount16, inConnect},
	propTopicAliasMaximum:   {formUint16, inConnect},
	propTopicAlias:          {formAlias, inPublish},
	propUser:                {formPair, inConnect | inMessage | inAcks | inSubscribe | inUnsubscribe | inDisconnect | inAuth},
	propMaximumPacketSize:   {formCount32, inConnect},
}

// property is a property of a packet. It refers to the bytes of the packet.
type property struct {
	id     byte
	number uint32
	name   []byte // of a user property
	bytes  []byte // a text, bytes, or the value of a user property
	raw    []byte // with the identifier
}

// properties iterates over the properties of a packet.
type properties struct {
	cursor
	in   packetSet
	seen uint64 // bit set of identifiers
}

// properties returns an iterator over the properties that begin here.
func (c *cursor) properties(in packetSet) properties {
	area := c.take(int(c.varint()))
	return properties{cursor: cursor{rest: area, fault: c.fault}, in: in}
}

// next decodes a property and checks its position and value. ok is false at the end or after a
// fault.
func (w *properties) next() (p property, ok bool) {
	if len(w.rest) == 0 {
		return property{}, false
	}
	start := w.rest
	p.id = w.byte()
	w.checkAllowed(p.id)
	if w.fault == nil {
		w.value(&p)
	}
	p.raw = start[:len(start)-len(w.rest)]
	return p, w.fault == nil
}

// checkAllowed checks that a property is allowed in this packet. Only user properties may be
// repeated [MQTT 2.2.2.2].
func (w *properties) checkAllowed(id byte) {
	switch {
	case int(id) >= len(known) || known[id].in&w.in == 0:
		w.fail(malformed("property 0x%02x does not belong here", id))
	case w.seen&(1<<id) != 0 && id != propUser:
		w.fail(violation("property 0x%02x comes more than once", id))
	}
	w.seen |= 1 << (id & 63)
}

func (w *properties) value(p *property) {
	switch form := known[p.id].form; form {
	case formFlag:
		p.number = uint32(w.byte())
	case formUint16, formCount16, formAlias:
		p.number = uint32(w.uint16())
	case formUint32, formCount32:
		p.number = w.uint32()
	case formCountVarint:
		p.number = w.varint()
	case formText:
		p.bytes = w.text()
	case formTopic:
		p.bytes = w.topic()
	case formBinary:
		p.bytes = w.binary()
	case formPair:
		p.name, p.bytes = w.text(), w.text()
	}
	if w.fault == nil {
		w.checkValue(p)
	}
}

// checkValue checks a numeric value.
func (w *properties) checkValue(p *property) {
	switch form := known[p.id].form; {
	case form == formFlag && p.number > 1:
		w.fail(violation("property 0x%02x is neither 0 nor 1", p.id))
	case p.number != 0:
	case form == formAlias: // [MQTT-3.3.2-8]
		w.fail(errAlias)
	case form == formCountVarint:
		w.fail(malformed("property 0x%02x is 0", p.id))
	case form == formCount16, form == formCount32:
		w.fail(violation("property 0x%02x is 0", p.id))
	}
}

// readAll checks all properties.
func (w *properties) readAll() {
	for ok := true; ok; {
		_, ok = w.next()
	}
}

// skip checks properties whose values are not needed.
func (c *cursor) skip(w properties) {
	w.readAll()
	c.check(w.fault)
}

// lastProperties returns properties that may be omitted together with their length, because
// they end the packet.
func (c *cursor) lastProperties(in packetSet) properties {
	if len(c.rest) == 0 {
		return properties{}
	}
	return c.properties(in)
}

// forwarded collects the properties to forward. They refer to the packet while they are
// contiguous, and are copied otherwise.
type forwarded struct {
	raw    []byte
	buf    []byte // buffer for a copy
	copied bool
}

// add adds a property. All slices of one packet's properties have their capacity up to the
// same end, so the capacity determines the offset.
func (k *forwarded) add(raw []byte) {
	switch {
	case k.raw == nil:
		k.raw = raw
	case !k.copied && cap(k.raw)-len(k.raw) == cap(raw):
		k.raw = k.raw[:len(k.raw)+len(raw)]
	case !k.copied:
		k.copied = true
		k.buf = append(append(k.buf[:0], k.raw...), raw...)
		k.raw = k.buf
	default:
		k.buf = append(k.buf, raw...)
		k.raw = k.buf
	}
}
