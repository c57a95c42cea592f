package sessions_test

import (
	"context"
	"errors"
	"slices"
	"time"
)

// noteLost records that a request was lost because a node is isolated or a direction is blocked,
// or that one is not lost any more. It is repeated until its context ends.
func (c *cluster) noteLost(ctx context.Context, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost {
		c.lost[ctx] = true
	} else {
		delete(c.lost, ctx)
	}
}

// anyLost reports whether a request was lost and may yet fail: the node that sends it then regards
// the other one as unreachable, although that can be reached by now.
func (c *cluster) anyLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ctx := range c.lost {
		deadline, ok := ctx.Deadline()
		if errors.Is(ctx.Err(), context.Canceled) || ok && time.Now().After(deadline) {
			delete(c.lost, ctx)
		}
	}
	return len(c.lost) > 0
}

// allReachable reports whether no node regards another one as unreachable, or will because of a
// request that was lost before.
func (c *cluster) allReachable() bool {
	return !c.anyLost() && !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.sessions.Figures().Unreachable > 0 })
}
