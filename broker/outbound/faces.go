package outbound

import "net/netip"

// Networks whose addresses hold an address of IPv4, to which they are translated on
// the way, and where in their bytes it is.
var translated = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052 §2.1
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 for local use with a prefix of 96 bits, RFC 8215
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated, RFC 2765 §2.1
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056 §2
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible, RFC 4291 §2.5.5.1
}

// facesOf returns an address with all that it stands for, so that no spelling gets
// round a rule.
func facesOf(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	faces := []netip.Addr{a}
	if a.Is6() && !a.IsLoopback() && !a.IsUnspecified() {
		b := a.As16()
		for _, t := range translated {
			if t.network.Contains(a) {
				faces = append(faces, netip.AddrFrom4([4]byte(b[t.at:t.at+4])))
			}
		}
		faces = append(faces, embedded(a)...)
	}
	for _, f := range faces {
		if f.Is4() && f.As4()[0] == 0 || f.IsUnspecified() { // this machine [RFC 1122 §3.2.1.3]
			return append(faces, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
		}
	}
	return faces
}

// localNAT64 is where networks choose prefixes of their own, RFC 8215.
var localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")

// embedded returns the addresses of IPv4 that one of IPv6 may hold in a form that not all
// of its network have. Those that begin with 0 are none.
func embedded(a netip.Addr) (found []netip.Addr) {
	b := a.As16()
	var held [][4]byte
	if b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0 { // Teredo: the client, inverted, RFC 4380 §4
		held = append(held, [4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214 §6.1
		held = append(held, [4]byte(b[12:16]))
	}
	if localNAT64.Contains(a) { // prefixes of 48, 56 and 64 bits, around the byte that must be 0, RFC 6052 §2.2
		held = append(held, [4]byte{b[6], b[7], b[9], b[10]}, [4]byte{b[7], b[9], b[10], b[11]}, [4]byte(b[9:13]))
	}
	for _, v4 := range held {
		if v4[0] != 0 {
			found = append(found, netip.AddrFrom4(v4))
		}
	}
	return found
}
