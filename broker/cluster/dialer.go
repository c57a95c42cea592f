package cluster

import (
	"context"
	"net"
	"net/netip"
	"slices"
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
func dialer(listen string) func(ctx context.Context, hostPort string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(listen)
	own, err := netip.ParseAddr(host)
	own = own.Unmap()
	plain := net.Dialer{KeepAliveConfig: keepAlive, ControlContext: notSilent}
	if err != nil || own.IsUnspecified() {
		return func(ctx context.Context, hostPort string) (net.Conn, error) {
			return plain.DialContext(ctx, "tcp", hostPort)
		}
	}
	bound := plain
	bound.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0))
	return func(ctx context.Context, hostPort string) (net.Conn, error) {
		if reaches(ctx, own, hostPort) {
			return bound.DialContext(ctx, "tcp", hostPort)
		}
		return plain.DialContext(ctx, "tcp", hostPort)
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
