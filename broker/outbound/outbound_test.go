package outbound_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"signalbox/broker/outbound"
)

func policy(t testing.TB, c outbound.Config) *outbound.Policy {
	t.Helper()
	p, err := outbound.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// denied asks for an address that was found for a target.
func denied(p *outbound.Policy, target, address string) bool {
	err := p.Control(target)(context.Background(), "tcp", address, nil)
	_, is := errors.AsType[*outbound.Denied](err)
	return is
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	open := outbound.Config{}
	noLoopback := outbound.Config{Deny: []string{"127.0.0.0/8", "::1"}}
	for _, c := range []struct {
		name            string
		config          outbound.Config
		target, address string
		denied          bool
	}{
		{"loopback by default", open, "localhost:1883", "127.0.0.1:1883", false},
		{"a private network by default", open, "10.0.0.5:1883", "10.0.0.5:1883", false},
		{"a public address by default", open, "h:443", "93.184.216.34:443", false},
		{"metadata", open, "169.254.169.254:80", "169.254.169.254:80", true},
		{"metadata behind a name", open, "evil.example:80", "169.254.169.254:80", true},
		{"metadata, IPv4 in IPv6", open, "h:80", "[::ffff:169.254.169.254]:80", true},
		{"metadata through NAT64", open, "h:80", "[64:ff9b::a9fe:a9fe]:80", true},
		{"metadata through local NAT64", open, "h:80", "[64:ff9b:1::a9fe:a9fe]:80", true},
		{"metadata through 6to4", open, "h:80", "[2002:a9fe:a9fe::1]:80", true},
		{"metadata, IPv4-compatible", open, "h:80", "[::a9fe:a9fe]:80", true},
		{"metadata through local NAT64 of 48 bits", open, "h:80", "[64:ff9b:1:a9fe:a9:fe00::]:80", true},
		{"metadata through local NAT64 of 56 bits", open, "h:80", "[64:ff9b:1:a9:fe:a9fe::]:80", true},
		{"metadata through local NAT64 of 64 bits", open, "h:80", "[64:ff9b:1::a9:fea9:fe00:0]:80", true},
		{"metadata, IPv4-translated", open, "h:80", "[::ffff:0:a9fe:a9fe]:80", true},
		{"metadata through Teredo", open, "h:80", "[2001:0:1::5601:5601]:80", true},
		{"metadata through ISATAP", open, "h:80", "[2001:db8::5efe:a9fe:a9fe]:80", true},
		{"metadata of AWS by IPv6", open, "h:80", "[fd00:ec2::254]:80", true},
		{"metadata of Alibaba", open, "h:80", "100.100.100.200:80", true},
		{"link-local with a zone", open, "h:80", "[fe80::1%eth0]:80", true},
		{"public through NAT64", open, "h:80", "[64:ff9b::5db8:d822]:80", false},

		{"loopback denied", noLoopback, "h:1", "127.0.0.1:1", true},
		{"all of loopback denied", noLoopback, "h:1", "127.9.9.9:1", true},
		{"loopback in IPv6", noLoopback, "h:1", "[::ffff:127.0.0.1]:1", true},
		{"loopback as 0.0.0.0", noLoopback, "h:1", "0.0.0.0:1", true},
		{"loopback as 0.1.2.3", noLoopback, "h:1", "0.1.2.3:1", true},
		{"loopback as ::", noLoopback, "h:1", "[::]:1", true},
		{"loopback as ::ffff:0.0.0.0", noLoopback, "h:1", "[::ffff:0.0.0.0]:1", true},
		{"loopback through NAT64", noLoopback, "h:1", "[64:ff9b::7f00:1]:1", true},
		{"public through local NAT64", noLoopback, "h:1", "[64:ff9b:1::5db8:d822]:1", false},
		{"another address", noLoopback, "h:1", "10.0.0.1:1", false},

		{"only what is allowed", outbound.Config{Allow: []string{"10.0.0.0/8"}}, "h:1", "10.1.2.3:1", false},
		{"not what is not", outbound.Config{Allow: []string{"10.0.0.0/8"}}, "h:1", "11.1.2.3:1", true},
		{"only the ports", outbound.Config{Allow: []string{"10.0.0.0/8:1883-1884"}}, "h:1884", "10.1.2.3:1884", false},
		{"no other port", outbound.Config{Allow: []string{"10.0.0.0/8:1883-1884"}}, "h:22", "10.1.2.3:22", true},
		{"a name", outbound.Config{Allow: []string{"*.plant.example"}}, "A.Plant.Example.:1", "8.8.8.8:1", false},
		{"not the name itself", outbound.Config{Allow: []string{"*.plant.example"}}, "plant.example:1", "8.8.8.8:1", true},
		{"not one that ends like it", outbound.Config{Allow: []string{"*.plant.example"}}, "xplant.example:1", "8.8.8.8:1", true},
		{"an allowed name at metadata", outbound.Config{Allow: []string{"*.plant.example"}}, "a.plant.example:1", "169.254.169.254:1", true},
		{"all allowed is not metadata", outbound.Config{Allow: []string{"0.0.0.0/0", "*"}}, "h:1", "169.254.169.254:1", true},
		{"link-local taken back", outbound.Config{Allow: []string{"169.254.10.0/24", "*"}}, "h:1", "169.254.10.7:1", false},
		{"no more than that", outbound.Config{Allow: []string{"169.254.10.0/24", "*"}}, "h:1", "169.254.169.254:1", true},
		{"deny wins", outbound.Config{Allow: []string{"10.0.0.0/8"}, Deny: []string{"10.0.0.5"}}, "h:1", "10.0.0.5:1", true},
		{"a denied port", outbound.Config{Deny: []string{"*:25"}}, "h:25", "8.8.8.8:25", true},
		{"a denied name", outbound.Config{Deny: []string{"db.internal"}}, "DB.internal:5432", "8.8.8.8:5432", true},
		{"IPv6 with a port", outbound.Config{Deny: []string{"[2001:db8::/32]:22"}}, "h:22", "[2001:db8::1]:22", true},
		{"IPv6 with another", outbound.Config{Deny: []string{"[2001:db8::/32]:22"}}, "h:23", "[2001:db8::1]:23", false},
	} {
		if got := denied(policy(t, c.config), c.target, c.address); got != c.denied {
			t.Errorf("%s: denied %t, want %t", c.name, got, c.denied)
		}
	}
	if !denied(nil, "h:1", "169.254.169.254:1") || denied(nil, "h:1", "127.0.0.1:1") {
		t.Error("no policy is not that of an empty configuration")
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "10.0.0.0/33", "300.1.1.1", "10.0.0.1:0", "10.0.0.1:70000", "h:5-4", "a..b", "*.*.b", "[::1", "::1]", "a b", "http://h", "h:", "*.", "[name]:1"} {
		err := outbound.Config{Deny: []string{"10.0.0.1", text}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "outbound.deny[1]") {
			t.Errorf("%q: got %v, want it named", text, err)
		}
	}
	for _, text := range []string{"10.0.0.0/8", "10.0.0.1", "::1", "[::1]", "[::1]:5", "::ffff:10.0.0.0/104", "*", "*:25", "h", "h:1-2", "*.a.b", "a_b.c."} {
		if err := (outbound.Config{Allow: []string{text}}).Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestDial dials a name that leads to a denied address.
func TestDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	target := net.JoinHostPort("localhost", port)
	conn, err := policy(t, outbound.DefaultConfig()).DialContext(t.Context(), "tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	_, err = policy(t, outbound.Config{Deny: []string{"127.0.0.0/8", "::1"}}).DialContext(t.Context(), "tcp", target)
	if e, ok := errors.AsType[*outbound.Denied](err); !ok || e.Target != target || strings.Contains(e.Error(), "127.0.0.1") {
		t.Errorf("got %v, want %s denied, without its address", err, target)
	}
	if _, err := policy(t, outbound.DefaultConfig()).DialContext(t.Context(), "unix", "/run/x.sock"); err == nil || !strings.Contains(err.Error(), "does not connect") {
		t.Errorf("a unix socket: %v", err)
	}
}

func FuzzRule(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8:1-2", "[::1]:5", "*.a.b:1", "::ffff:1.2.3.4", "*", "[", ":", "64:ff9b::/96"} {
		f.Add(seed, "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, text, address string) {
		p, err := outbound.New(outbound.Config{Deny: []string{text}})
		addr, addrErr := netip.ParseAddr(address)
		if err != nil || addrErr != nil {
			return
		}
		one := denied(p, "h:1", netip.AddrPortFrom(addr, 1).String())
		if mapped := addr.Unmap(); mapped.Is4() {
			other := netip.AddrFrom16(mapped.As16())
			if denied(p, "h:1", netip.AddrPortFrom(other, 1).String()) != one {
				t.Errorf("%q denies only one spelling of %s", text, mapped)
			}
		}
	})
}
