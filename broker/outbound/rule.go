package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// rule is an entry of the configuration: a network or a host, and ports.
type rule struct {
	network     netip.Prefix // invalid for a host
	host        string       // in lower case; "*" is any, a leading "*." any below
	first, last uint16       // ports
}

// rules reads entries. The error names each that is wrong by its key and place.
func rules(key string, texts []string) (all []rule, err error) {
	for i, text := range texts {
		r, bad := parseRule(text)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s[%d]: %q %w", key, i, text, bad))
		}
		all = append(all, r)
	}
	return all, err
}

var errRule = errors.New("is no network (10.0.0.0/8), address, host name (*.plant.example) or *, with or without :port or :port-port")

// parseRule reads an entry.
func parseRule(text string) (rule, error) {
	r := rule{last: 65535}
	text = strings.ToLower(strings.TrimSpace(text))
	if network, err := parseNetwork(text); err == nil { // also IPv6 without brackets
		r.network = network
		return r, nil
	}
	host, ports := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		host, ports = text[:i], text[i+1:]
		var ok bool
		if r.first, r.last, ok = parsePorts(ports); !ok {
			if !strings.HasSuffix(text, "]") {
				return rule{}, errRule
			}
			host, r.first, r.last = text, 0, 65535
		}
	}
	inner, hasBracket := strings.CutPrefix(host, "[")
	if hasBracket {
		var closed bool
		if host, closed = strings.CutSuffix(inner, "]"); !closed {
			return rule{}, errRule
		}
	}
	if network, err := parseNetwork(host); err == nil {
		r.network = network
		return r, nil
	}
	if hasBracket || !isHostPattern(host) {
		return rule{}, errRule
	}
	r.host = strings.TrimSuffix(host, ".")
	return r, nil
}

// parseNetwork reads a network or an address. One of IPv4 in IPv6 is one of IPv4.
func parseNetwork(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		a = a.Unmap().WithZone("")
		return a.Prefix(a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// parsePorts reads a port or a range.
func parsePorts(text string) (first, last uint16, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	low, err := strconv.ParseUint(from, 10, 16)
	high, err2 := strconv.ParseUint(to, 10, 16)
	return uint16(low), uint16(high), err == nil && err2 == nil && low > 0 && low <= high //nolint:gosec // of 16 bits
}

// isHostPattern reports whether a text is *, a host name, or *. before one.
func isHostPattern(text string) bool {
	if text == "*" {
		return true
	}
	name := strings.TrimSuffix(strings.TrimPrefix(text, "*."), ".")
	if name == "" || len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" { // would be an address that cannot be read
		return false
	}
	return !slices.ContainsFunc(labels, func(label string) bool {
		return label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	})
}

// destination is what is about to be dialled.
type destination struct {
	host  string // as it was named, in lower case
	port  uint16
	faces []netip.Addr
}

func (t destination) isIn(network netip.Prefix) bool {
	return slices.ContainsFunc(t.faces, network.Contains)
}

func matchesAny(rules []rule, t destination) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.matches(t) })
}

func (r rule) matches(t destination) bool {
	if t.port < r.first || t.port > r.last {
		return false
	}
	if r.network.IsValid() {
		return t.isIn(r.network)
	}
	if below, ok := strings.CutPrefix(r.host, "*."); ok {
		return strings.HasSuffix(t.host, "."+below)
	}
	return r.host == "*" || r.host == t.host
}
