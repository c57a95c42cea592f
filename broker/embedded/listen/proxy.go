package listen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Sizes of a PROXY header; see the PROXY protocol of HAProxy, 2.1 and 2.2.
const (
	proxyLead  = 12  // bytes that distinguish version 1, version 2 and anything else
	proxyLine  = 107 // the longest line of version 1, with CR LF
	proxyFixed = 16  // of version 2, before addresses
	proxyMost  = 4 << 10
)

var (
	proxySignature = []byte("\r\n\r\n\x00\r\nQUIT\n")
	proxyWord      = []byte("PROXY ")
)

// The errors of PROXY headers.
var (
	errNoProxyHeader  = errors.New("no PROXY header")
	errBadProxyHeader = errors.New("bad PROXY header")
)

// readProxyHeader reads a PROXY header of version 1 or 2 and not a byte beyond. It returns
// nil if the header does not name the client: the connection is then the proxy's own, or
// its peer is not known.
func readProxyHeader(r io.Reader) (net.Addr, error) {
	head := make([]byte, proxyLead, proxyLine)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	switch {
	case bytes.Equal(head, proxySignature):
		return readProxyV2(r, head)
	case bytes.HasPrefix(head, proxyWord):
		return readProxyV1(r, head)
	}
	return nil, errNoProxyHeader
}

// readProxyV1 reads the rest of a line, byte by byte because its length is not known.
func readProxyV1(r io.Reader, line []byte) (net.Addr, error) {
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == proxyLine {
			return nil, fmt.Errorf("%w: line too long", errBadProxyHeader)
		}
		if _, err := io.ReadFull(r, line[len(line):len(line)+1]); err != nil {
			return nil, fmt.Errorf("read a PROXY header: %w", err)
		}
		line = line[:len(line)+1]
	}
	return parseProxyV1(string(line[:len(line)-2]))
}

// parseProxyV1 parses "PROXY TCP4 client proxy port port" and similar lines.
func parseProxyV1(line string) (net.Addr, error) {
	if line == "PROXY UNKNOWN" || strings.HasPrefix(line, "PROXY UNKNOWN ") {
		return nil, nil
	}
	fields := strings.Split(line, " ")
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return nil, fmt.Errorf("%w: not TCP4, TCP6 or UNKNOWN with its fields", errBadProxyHeader)
	}
	client, err := parseProxyEnd(fields[1], fields[2], fields[4])
	if err != nil {
		return nil, err
	}
	if _, err := parseProxyEnd(fields[1], fields[3], fields[5]); err != nil {
		return nil, err
	}
	return net.TCPAddrFromAddrPort(client), nil
}

// parseProxyEnd parses an address and port of version 1.
func parseProxyEnd(family, address, port string) (netip.AddrPort, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" || ip.Is4() != (family == "TCP4") {
		return netip.AddrPort{}, fmt.Errorf("%w: bad %s address", errBadProxyHeader, family)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(n, 10) {
		return netip.AddrPort{}, fmt.Errorf("%w: bad port", errBadProxyHeader)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
}

// readProxyV2 reads the rest of a binary header.
func readProxyV2(r io.Reader, lead []byte) (net.Addr, error) {
	header := lead[:proxyFixed]
	if _, err := io.ReadFull(r, header[proxyLead:]); err != nil {
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	size := int(binary.BigEndian.Uint16(header[14:]))
	if size > proxyMost {
		return nil, fmt.Errorf("%w: %d bytes of addresses and more", errBadProxyHeader, size)
	}
	header = append(header, make([]byte, size)...)
	if _, err := io.ReadFull(r, header[proxyFixed:]); err != nil {
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	return parseProxyV2(header)
}

// Version and command, and families, of version 2.
const (
	proxyLocal = 0x20
	proxyProxy = 0x21

	proxyUnspecified = 0x00
	proxyTCP4        = 0x11
	proxyTCP6        = 0x21
	proxyUnix        = 0x31
)

// parseProxyV2 parses a complete binary header.
func parseProxyV2(header []byte) (net.Addr, error) {
	command, family, rest := header[12], header[13], header[proxyFixed:]
	if command != proxyLocal && command != proxyProxy {
		return nil, fmt.Errorf("%w: version and command 0x%02x", errBadProxyHeader, command)
	}
	if command == proxyLocal {
		family = proxyUnspecified // must be ignored
	}
	ip, both := 0, 0 // lengths of one address, and of all addresses with ports
	switch family {
	case proxyTCP4:
		ip, both = 4, 12
	case proxyTCP6:
		ip, both = 16, 36
	case proxyUnix:
		both = 216
	case proxyUnspecified:
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: family 0x%02x", errBadProxyHeader, family)
	}
	if len(rest) < both {
		return nil, fmt.Errorf("%w: addresses cut short", errBadProxyHeader)
	}
	if err := checkProxyRest(header, proxyFixed+both); err != nil || ip == 0 {
		return nil, err
	}
	client, _ := netip.AddrFromSlice(rest[:ip]) // no error: it is 4 or 16 bytes
	port := binary.BigEndian.Uint16(rest[2*ip:])
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(client.Unmap(), port)), nil
}

// checkProxyRest validates what follows the addresses, each a type, length and value, and
// the checksum if there is one.
func checkProxyRest(header []byte, at int) error {
	const checksum = 0x03
	for at < len(header) {
		if len(header) < at+3 {
			return fmt.Errorf("%w: cut short", errBadProxyHeader)
		}
		kind, size := header[at], int(binary.BigEndian.Uint16(header[at+1:]))
		at += 3
		if len(header) < at+size {
			return fmt.Errorf("%w: cut short", errBadProxyHeader)
		}
		if kind == checksum && !checksumHolds(header, header[at:at+size]) {
			return fmt.Errorf("%w: checksum", errBadProxyHeader)
		}
		at += size
	}
	return nil
}

// checksumHolds reports whether sum is the CRC-32C of the header, computed with zeros in
// place of the checksum.
func checksumHolds(header, sum []byte) bool {
	if len(sum) != crc32.Size {
		return false
	}
	want := binary.BigEndian.Uint32(sum)
	clear(sum)
	return crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli)) == want
}
