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

// owners is a set of packets that have properties, bit by bit.
type owners uint16

const (
	inWill        owners = 1 // which is a part of CONNECT
	inConnect            = 1 << owners(TypeConnect)
	inPublish            = 1 << owners(TypePublish)
	inAcks               = 1<<owners(TypePuback) | 1<<owners(TypePubrec) | 1<<owners(TypePubrel) | 1<<owners(TypePubcomp)
	inSubscribe          = 1 << owners(TypeSubscribe)
	inUnsubscribe        = 1 << owners(TypeUnsubscribe)
	inDisconnect         = 1 << owners(TypeDisconnect)
	inAuth               = 1 << owners(TypeAuth)
	inMessage            = inPublish | inWill
)

// form is how the value of a property is encoded, and what it may be.
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

// known tells of every property that a client may send how it is encoded and
// in which packets. Servers alone send the others.
var known = [...]struct {
	form form
	in   owners
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

// property is one property of a packet. Its bytes stay a part of the packet.
type property struct {
	id     byte
	number uint32
	name   []byte // of a user property
	bytes  []byte // a text, bytes, or the value of a user property
	raw    []byte // with its identifier
}

// properties walks the properties of one packet.
type properties struct {
	cursor
	in   owners
	seen uint64 // identifiers, bit by bit
}

// properties cuts off the properties that begin here, to be walked.
func (c *cursor) properties(in owners) properties {
	area := c.take(int(c.varint()))
	return properties{cursor: cursor{rest: area, fault: c.fault}, in: in}
}

// next reads a property and checks that it may stand here, with that value. It
// is over, or faulty, where ok is false.
func (w *properties) next() (p property, ok bool) {
	if len(w.rest) == 0 {
		return property{}, false
	}
	start := w.rest
	p.id = w.byte()
	w.admit(p.id)
	if w.fault == nil {
		w.value(&p)
	}
	p.raw = start[:len(start)-len(w.rest)]
	return p, w.fault == nil
}

// admit checks that a property may stand in this packet, at this point. Only a
// user property may come more than once [MQTT 2.2.2.2].
func (w *properties) admit(id byte) {
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
		w.judge(p)
	}
}

// judge checks the value of a number.
func (w *properties) judge(p *property) {
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

// all walks all properties.
func (w *properties) all() {
	for ok := true; ok; {
		_, ok = w.next()
	}
}

// skip checks properties where nothing in them matters.
func (c *cursor) skip(w properties) {
	w.all()
	c.check(w.fault)
}

// lastProperties are properties that may be left out, their length included,
// as they end the packet.
func (c *cursor) lastProperties(in owners) properties {
	if len(c.rest) == 0 {
		return properties{}
	}
	return c.properties(in)
}

// passedOn gathers properties that go on to others. They stay a part of the
// packet while they stand side by side there, and are copied otherwise.
type passedOn struct {
	raw    []byte
	own    []byte // room for a copy
	copied bool
}

// add gathers a property. Slices of one packet's properties all have their
// capacity up to the end of them, so that capacities tell where they begin.
func (k *passedOn) add(raw []byte) {
	switch {
	case k.raw == nil:
		k.raw = raw
	case !k.copied && cap(k.raw)-len(k.raw) == cap(raw):
		k.raw = k.raw[:len(k.raw)+len(raw)]
	case !k.copied:
		k.copied = true
		k.own = append(append(k.own[:0], k.raw...), raw...)
		k.raw = k.own
	default:
		k.own = append(k.own, raw...)
		k.raw = k.own
	}
}
