// Package outbound decides where this service may connect to. Callers of the API
// name the hosts of brokers and bridges, and must not reach what only this machine
// does: the metadata service of a cloud, for example.
//
// A name is looked up and its addresses are checked when they are dialled, so that
// a name cannot lead elsewhere in between. The package imports nothing else of this
// module.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Config is the configuration under "outbound.". Its entries are networks
// (10.0.0.0/8), addresses, host names (plant.example, *.plant.example) or * for
// any host, each with or without a port or a range of ports behind a colon.
type Config struct {
	// Allow are the only targets, if there are any. A network within one of those
	// that are denied by default takes that back.
	Allow []string `mapstructure:"allow"`
	// Deny are targets that are refused, whatever is allowed.
	Deny []string `mapstructure:"deny"`
}

// DefaultConfig returns the configuration of an empty file.
func DefaultConfig() Config { return Config{Allow: []string{}, Deny: []string{}} }

// Validate names every entry that cannot be used.
func (c Config) Validate() error {
	_, err := New(c)
	return err
}

// deniedByDefault are link-local networks, and the addresses outside of these at
// which clouds tell their machines secrets.
var deniedByDefault = networks(
	"169.254.0.0/16",     // link-local; metadata of AWS, Azure, Google Cloud and most others
	"fe80::/10",          // link-local
	"fd00:ec2::254/128",  // metadata of AWS
	"fd20:ce::254/128",   // metadata of Google Cloud
	"100.100.100.200/32", // metadata of Alibaba Cloud
	"168.63.129.16/32",   // the host of Azure
	"192.0.0.192/32",     // metadata of Oracle Cloud
)

func networks(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// Policy is where this service may connect to. It does not change. A nil Policy
// allows what an empty configuration does.
type Policy struct {
	allow, deny []rule
	resolver    *net.Resolver // nil for that of the system
}

// New makes a policy. The error names every entry that cannot be used.
func New(c Config) (*Policy, error) {
	allow, err := rules("outbound.allow", c.Allow)
	deny, denyErr := rules("outbound.deny", c.Deny)
	if err = errors.Join(err, denyErr); err != nil {
		return nil, err
	}
	return &Policy{allow: allow, deny: deny}, nil
}

// Denied is a connection that the configuration does not allow. Its address is
// not told: who named the host need not learn what it resolves to.
type Denied struct {
	Target string // host and port as they were named
	Key    string // of the configuration
}

// Error returns what to change.
func (e *Denied) Error() string {
	return fmt.Sprintf("this service does not connect to %s: see %s in its configuration", e.Target, e.Key)
}

// dialTimeout bounds a dial whose context has no end.
const dialTimeout = 30 * time.Second

// DialContext connects to a host and port over TCP, if the address that is dialled
// may be. The error unwraps to a *Denied if not.
func (p *Policy) DialContext(ctx context.Context, network, target string) (net.Conn, error) {
	named := target
	if host, ok := ctx.Value(hostKey{}).(string); ok {
		if _, port, err := net.SplitHostPort(target); err == nil {
			named = net.JoinHostPort(host, port)
		}
	}
	return p.dialer(named).DialContext(ctx, network, target)
}

type hostKey struct{}

// FoundFor returns a context in which DialContext takes an address for one that was found
// for a host: as when the same server is to be reached again, whichever of the host's
// addresses it has. The address itself is checked as ever.
func FoundFor(ctx context.Context, host string) context.Context {
	return context.WithValue(ctx, hostKey{}, host)
}

// dialer returns what dials one target.
func (p *Policy) dialer(target string) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second, ControlContext: p.Control(target)}
	if p != nil {
		d.Resolver = p.resolver
	}
	return d
}

// Control returns what refuses addresses of a target, for a net.Dialer: it is called
// with each address that is about to be dialled.
func (p *Policy) Control(target string) func(ctx context.Context, network, address string, c syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		return p.check(target, network, address)
	}
}

func (p *Policy) check(target, network, address string) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return &Denied{Target: target, Key: "outbound"} // a unix socket, for example
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	if key := p.refusal(host, addr); key != "" {
		return &Denied{Target: target, Key: key}
	}
	return nil
}

// refusal returns the key by which an address, found for a host, is refused, "" if
// it is allowed.
func (p *Policy) refusal(host string, addr netip.AddrPort) string {
	t := destination{host: strings.ToLower(strings.TrimSuffix(host, ".")), port: addr.Port(), faces: facesOf(addr.Addr())}
	var allow, deny []rule
	if p != nil {
		allow, deny = p.allow, p.deny
	}
	if matchesAny(deny, t) {
		return "outbound.deny"
	}
	if len(allow) > 0 && !matchesAny(allow, t) {
		return "outbound.allow"
	}
	for _, network := range deniedByDefault {
		if t.isIn(network) && !takenBack(allow, network, t) {
			return "outbound.allow"
		}
	}
	return ""
}

// takenBack reports whether a rule within a network allows a target in it.
func takenBack(allow []rule, network netip.Prefix, t destination) bool {
	for _, r := range allow {
		if r.network.IsValid() && r.network.Bits() >= network.Bits() && network.Contains(r.network.Addr()) && r.matches(t) {
			return true
		}
	}
	return false
}
