//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// IdleClients are clients that are connected and idle.
type IdleClients struct{ clients []*client }

// The local addresses of idle clients, with a thousand connections each, so that
// neither the ports nor a broker's limit per address are exhausted.
const (
	perAddress = 1_000
	perNetwork = 250 // addresses
)

// dialers is how many idle clients connect concurrently.
const dialers = 8

// ConnectIdle connects that many clients, each with a subscription of its own. It needs
// a file descriptor for each.
func ConnectIdle(ctx context.Context, t Target, n int) (*IdleClients, error) {
	c := &IdleClients{clients: make([]*client, n)}
	errs := make([]error, dialers)
	var connecting sync.WaitGroup
	for d := range dialers {
		connecting.Go(func() {
			for i := d; i < n && errs[d] == nil; i += dialers {
				c.clients[i], errs[d] = idler(ctx, t, i)
			}
		})
	}
	connecting.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func idler(ctx context.Context, t Target, n int) (*client, error) {
	const little = 64 // bytes; next to nothing is read
	from := net.IPv4(127, 0, byte(1+n/perAddress/perNetwork), byte(1+n/perAddress%perNetwork))
	c, err := dial(ctx, t.Addr, t.login(fmt.Sprintf("bench-idle-%d", n), "", true), from, little)
	if err != nil {
		return nil, fmt.Errorf("connection %d: %w", n, err)
	}
	if err := c.subscribe(fmt.Sprintf("bench/idle/%d", n), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("connection %d: %w", n, err), c.Close())
	}
	return c, nil
}

// Close ends all connections.
func (c *IdleClients) Close() error {
	for _, one := range slices.DeleteFunc(c.clients, func(one *client) bool { return one == nil }) {
		one.Close()
	}
	return nil
}
