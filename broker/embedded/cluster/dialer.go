package cluster

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// silence is for how long the other side of a connection may leave what it was
// sent without a word. Without a bound of ours that is a quarter of an hour, in
// which nothing else goes to a node that has long come back.
const silence = 5 * time.Second

// keepAlive asks after the other side of a connection on which nothing is said.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: silence, Interval: silence / 3, Count: 3}

// dialer gives how other nodes are reached from a cluster port: over the network
// that the port is on, where it is on a certain one.
func dialer(listen string, allowed func(hostPort string) Control) func(ctx context.Context, hostPort string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(listen)
	own, err := netip.ParseAddr(host)
	own = own.Unmap()
	isBound := err == nil && !own.IsUnspecified()
	return func(ctx context.Context, hostPort string) (net.Conn, error) {
		d := net.Dialer{KeepAliveConfig: keepAlive, ControlContext: controlOf(hostPort, allowed)}
		if isBound && reaches(ctx, own, hostPort) {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0))
		}
		return d.DialContext(ctx, "tcp", hostPort)
	}
}

// controlOf returns what a connection to another node goes through before it is made.
func controlOf(hostPort string, allowed func(hostPort string) Control) Control {
	if allowed == nil {
		return notSilent
	}
	check := allowed(hostPort)
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if err := check(ctx, network, address, c); err != nil {
			return err
		}
		return notSilent(ctx, network, address, c)
	}
}

// reaches tells whether a connection from an address can lead to one of those that
// a host has: both are of one version of the protocol, and both on this machine
// only, or neither.
func reaches(ctx context.Context, own netip.Addr, hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && slices.ContainsFunc(all, func(a netip.Addr) bool {
		a = a.Unmap()
		return a.Is4() == own.Is4() && a.IsLoopback() == own.IsLoopback()
	})
}
