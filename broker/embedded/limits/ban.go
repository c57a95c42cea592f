package limits

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"signalbox/broker"
)

// Values of broker.Ban.CreatedBy.
const (
	ByAPI      = "api"
	ByFlapping = "flapping"
)

// Limits of a ban's texts, in bytes.
const (
	maxBanValue  = 65_535 // the most that MQTT can express [MQTT-1.5.4]
	maxBanReason = 1000
)

// expired reports whether a ban has expired.
func expired(b broker.Ban, now moment) bool {
	t := now.wall
	if b.CreatedBy == ByFlapping {
		t = now.service
	}
	return !b.ExpiresAt.IsZero() && !b.ExpiresAt.After(t)
}

// canonical validates a ban and returns it with its value in canonical form.
func canonical(op string, b broker.Ban, now moment) (broker.Ban, error) {
	value, err := canonicalValue(op, b.Kind, b.Value)
	switch {
	case err != nil:
		return broker.Ban{}, err
	case len(b.Reason) > maxBanReason || !utf8.ValidString(b.Reason):
		return broker.Ban{}, invalid(op, fmt.Sprintf("reason: must be UTF-8 of at most %d bytes", maxBanReason))
	case expired(b, now):
		return broker.Ban{}, invalid(op, "expires_at: must lie in the future")
	}
	b.Value = value
	return b, nil
}

// canonicalValue validates a value and returns its canonical form.
func canonicalValue(op string, kind broker.BanKind, value string) (string, error) {
	switch kind {
	case broker.BanClientID, broker.BanUsername:
		if value == "" || len(value) > maxBanValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return "", invalid(op, "value: must be UTF-8 of 1 to 65535 bytes without U+0000")
		}
		return value, nil
	case broker.BanAddress:
		network, err := ParseNetwork(value)
		if err != nil {
			return "", invalid(op, "value: must be an address or a network such as 10.0.0.0/8")
		}
		return networkText(network), nil
	}
	return "", invalid(op, "kind: must be clientid, username or address")
}

func invalid(op, message string) error {
	return &broker.Error{Kind: broker.Invalid, Op: op, Msg: message}
}

// ParseNetwork parses an address or a network. Bits beyond the network's length are
// cleared; an IPv4-mapped IPv6 address is an IPv4 address.
func ParseNetwork(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		return unmapped(p).Masked(), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = plain(addr)
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// unmapped returns a network of IPv4-mapped IPv6 addresses as one of IPv4.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}

// plain returns the form in which addresses are compared here.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// networkText formats a network of one address as that address.
func networkText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
