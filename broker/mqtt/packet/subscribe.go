package packet

import (
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Subscribe is a SUBSCRIBE.
type Subscribe struct {
	PacketID uint16
	ID       uint32 // subscription identifier, 0 for none
	Filters  []Filter
}

// Filter is a topic filter and its subscription options.
type Filter struct {
	Filter  string
	Options byte // as encoded [MQTT 3.8.3.1]; before MQTT 5 only the QoS
}

// QoS returns the maximum QoS.
func (f Filter) QoS() byte { return f.Options & optionQoS }

// NoLocal reports whether the subscriber's own messages are excluded.
func (f Filter) NoLocal() bool { return f.Options&optionNoLocal != 0 }

// RetainAsPublished reports whether the RETAIN flag is kept.
func (f Filter) RetainAsPublished() bool { return f.Options&optionRetainAsPublished != 0 }

// RetainHandling returns 0 to send retained messages at each subscribe, 1 at a new one only, 2
// never.
func (f Filter) RetainHandling() byte { return f.Options & optionRetainHandling >> 4 }

// The subscription options [MQTT 3.8.3.1].
const (
	optionQoS               = 3
	optionNoLocal           = 1 << 2
	optionRetainAsPublished = 1 << 3
	optionRetainHandling    = 3 << 4
	optionReserved          = 3 << 6
)

// DecodeSubscribe decodes a SUBSCRIBE. The result does not refer to p.
func DecodeSubscribe(p []byte, version byte) (*Subscribe, error) {
	c := openFlagged(p, TypeSubscribe, 2, version) // [MQTT-3.8.1-1]
	body := c.rest
	c.filters(inSubscribe, version, func(filter string) *Error { return optionsFault(filter, c.byte(), version) })
	if fault := c.end(); fault != nil {
		return nil, fault
	}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe}, ProtocolVersion: version}
	if err := pk.SubscribeDecode(body); err != nil {
		return nil, errUndecodable
	}
	s := &Subscribe{PacketID: pk.PacketID, Filters: make([]Filter, len(pk.Filters))}
	for i, f := range pk.Filters {
		s.ID = uint32(f.Identifier)
		s.Filters[i] = Filter{Filter: strings.Clone(f.Filter), Options: options(f)}
	}
	return s, nil
}

// Unsubscribe is an UNSUBSCRIBE.
type Unsubscribe struct {
	PacketID uint16
	Filters  []string
}

// DecodeUnsubscribe decodes an UNSUBSCRIBE. The result does not refer to p.
func DecodeUnsubscribe(p []byte, version byte) (*Unsubscribe, error) {
	c := openFlagged(p, TypeUnsubscribe, 2, version) // [MQTT-3.10.1-1]
	body := c.rest
	c.filters(inUnsubscribe, version, func(string) *Error { return nil })
	if fault := c.end(); fault != nil {
		return nil, fault
	}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe}, ProtocolVersion: version}
	if err := pk.UnsubscribeDecode(body); err != nil {
		return nil, errUndecodable
	}
	u := &Unsubscribe{PacketID: pk.PacketID, Filters: make([]string, len(pk.Filters))}
	for i, f := range pk.Filters {
		u.Filters[i] = strings.Clone(f.Filter)
	}
	return u, nil
}

// filters decodes the common part of SUBSCRIBE and UNSUBSCRIBE; after decodes what follows
// each filter.
func (c *cursor) filters(in packetSet, version byte, after func(filter string) *Error) {
	if c.uint16() == 0 { // [MQTT-2.2.1-3]
		c.fail(errFilterID)
	}
	if version == V5 {
		c.skip(c.properties(in))
	}
	if c.fault == nil && len(c.rest) == 0 { // [MQTT-3.8.3-2] [MQTT-3.10.3-2]
		c.fail(errNoFilters)
	}
	for len(c.rest) > 0 {
		filter := string(c.text()) // [MQTT-3.8.3-1] [MQTT-3.10.3-1]
		c.check(filterFault(filter))
		c.check(after(filter))
	}
}

// optionsFault returns what is invalid in subscription options [MQTT-3.8.3-4] [MQTT-3.8.3-5].
func optionsFault(filter string, options, version byte) *Error {
	switch {
	case options&optionQoS == 3:
		return errQoS
	case version != V5 && options > 2, options&optionReserved != 0, options&optionRetainHandling == optionRetainHandling:
		return errOptions
	case options&optionNoLocal != 0 && strings.HasPrefix(filter, sharePrefix+"/"):
		return errShareLocal
	}
	return nil
}

// options puts back together what mochi's decoder takes apart.
func options(s packets.Subscription) byte {
	o := s.Qos | s.RetainHandling<<4
	if s.NoLocal {
		o |= optionNoLocal
	}
	if s.RetainAsPublished {
		o |= optionRetainAsPublished
	}
	return o
}
