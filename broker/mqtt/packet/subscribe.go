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

// Filter is a topic filter with its subscription options.
type Filter struct {
	Filter  string
	Options byte // as encoded [MQTT 3.8.3.1]; before MQTT 5 the QoS alone
}

// QoS is the greatest at which messages are to be delivered.
func (f Filter) QoS() byte { return f.Options & optionQoS }

// NoLocal tells whether the subscriber's own messages are to be left out.
func (f Filter) NoLocal() bool { return f.Options&optionNoLocal != 0 }

// RetainAsPublished tells whether the RETAIN flag is to stay as it was.
func (f Filter) RetainAsPublished() bool { return f.Options&optionRetainAsPublished != 0 }

// RetainHandling is 0 to be sent retained messages at each subscribe, 1 at a
// new one only, 2 never.
func (f Filter) RetainHandling() byte { return f.Options & optionRetainHandling >> 4 }

// The subscription options [MQTT 3.8.3.1].
const (
	optionQoS               = 3
	optionNoLocal           = 1 << 2
	optionRetainAsPublished = 1 << 3
	optionRetainHandling    = 3 << 4
	optionReserved          = 3 << 6
)

// DecodeSubscribe decodes a SUBSCRIBE. Nothing in it is a part of p.
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

// DecodeUnsubscribe decodes an UNSUBSCRIBE. Nothing in it is a part of p.
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

// filters walks what SUBSCRIBE and UNSUBSCRIBE have in common; after is asked
// for what follows each filter.
func (c *cursor) filters(in owners, version byte, after func(filter string) *Error) {
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

// optionsFault tells what is wrong with subscription options [MQTT-3.8.3-4]
// [MQTT-3.8.3-5].
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
