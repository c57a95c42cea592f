package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// tcpTimeout is how long sent data may stay unacknowledged before the connection fails. Without
// it that takes a quarter of an hour, in which nothing else is sent to a node that may be back
// for long.
const tcpTimeout = 5 * time.Second

// keepAlive detects a lost peer on a connection that is idle.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: tcpTimeout, Interval: tcpTimeout / 3, Count: 3}

// dialer returns the dialer for connections to other nodes. If the cluster port listens on one
// address, connections are made from that address, so that both directions use its network.
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
		conn, err := d.DialContext(ctx, "tcp", hostPort)
		if failed, ok := errors.AsType[*net.OpError](err); ok {
			failed.Source = nil // of which the port is not known: it is 0
		}
		return conn, err
	}
}

// controlOf returns the function that checks and configures the socket of a connection to
// another node.
func controlOf(hostPort string, allowed func(hostPort string) Control) Control {
	if allowed == nil {
		return setTCPUserTimeout
	}
	check := allowed(hostPort)
	return func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if err := check(ctx, network, address, c); err != nil {
			return err
		}
		return setTCPUserTimeout(ctx, network, address, c)
	}
}

// reaches reports whether a connection from an address can lead to one of those of a
// host: both are of one IP version, and both are loopback addresses or neither is.
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
