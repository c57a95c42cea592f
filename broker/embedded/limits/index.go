package limits

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"signalbox/broker"
)

// index finds bans. It is not safe for concurrent use. Values are canonical.
type index struct {
	byName    map[banName]broker.Ban // client ids and usernames
	byNetwork map[netip.Prefix]broker.Ban
	lengths   [2][129]int // the number of networks of each length: IPv4, IPv6
}

// banName is a client id or a username.
type banName struct {
	kind  broker.BanKind
	value string
}

func newIndex() *index {
	return &index{byName: map[banName]broker.Ban{}, byNetwork: map[netip.Prefix]broker.Ban{}}
}

func (x *index) size() int { return len(x.byName) + len(x.byNetwork) }

// all yields every ban, in no order.
func (x *index) all() iter.Seq[broker.Ban] {
	return func(yield func(broker.Ban) bool) {
		for b := range maps.Values(x.byName) {
			if !yield(b) {
				return
			}
		}
		for b := range maps.Values(x.byNetwork) {
			if !yield(b) {
				return
			}
		}
	}
}

// get returns the ban with a key.
func (x *index) get(kind broker.BanKind, value string) (b broker.Ban, ok bool) {
	if kind != broker.BanAddress {
		b, ok = x.byName[banName{kind, value}]
		return b, ok
	}
	network, err := ParseNetwork(value)
	if err != nil {
		return broker.Ban{}, false
	}
	b, ok = x.byNetwork[network]
	return b, ok
}

// put adds a ban or replaces the one of its key.
func (x *index) put(b broker.Ban) error {
	if b.Kind != broker.BanAddress {
		x.byName[banName{b.Kind, b.Value}] = b
		return nil
	}
	network, err := ParseNetwork(b.Value)
	if err != nil {
		return err
	}
	if _, replaces := x.byNetwork[network]; !replaces {
		x.lengthsOf(network.Addr())[network.Bits()]++
	}
	x.byNetwork[network] = b
	return nil
}

// drop removes a ban that put added.
func (x *index) drop(b broker.Ban) {
	if b.Kind != broker.BanAddress {
		delete(x.byName, banName{b.Kind, b.Value})
		return
	}
	if network, err := ParseNetwork(b.Value); err == nil { // put parsed it
		delete(x.byNetwork, network)
		x.lengthsOf(network.Addr())[network.Bits()]--
	}
}

// containing yields the bans of networks that contain an address, the smallest first. It
// costs one lookup for each length that any network has.
func (x *index) containing(addr netip.Addr) iter.Seq[broker.Ban] {
	return func(yield func(broker.Ban) bool) {
		for bits, n := range slices.Backward(x.lengthsOf(addr)[:addr.BitLen()+1]) {
			if n == 0 {
				continue
			}
			network, _ := addr.Prefix(bits) // no error: bits is within its length
			if b, ok := x.byNetwork[network]; ok && !yield(b) {
				return
			}
		}
	}
}

// lengthsOf returns the number of networks of an address's family, by length.
func (x *index) lengthsOf(addr netip.Addr) *[129]int {
	if addr.Is4() {
		return &x.lengths[0]
	}
	return &x.lengths[1]
}
