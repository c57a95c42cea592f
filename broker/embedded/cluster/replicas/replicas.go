// Package replicas stores the sessions of a node at a second node as well, so that they outlive the loss
// of the first one. A Replicator sends what its node has stored; a Receiver stores what other nodes send.
//
// The package does not know the network: requests go through Net. DESIGN.md describes the protocol, what is
// acknowledged when, and how a session continues from its replica. The package must not import any package of
// this module except broker/embedded/engine, broker/embedded/schema, broker/embedded/store, broker/records and
// broker/storage.
package replicas

import (
	"context"
	"hash/fnv"
	"log/slog"
	"time"

	"signalbox/broker/embedded/engine"
)

// Net sends requests to the other nodes.
type Net interface {
	// Ask sends a request to a node and returns what Receiver.Serve returns there. It ends when ctx does.
	// Requests and responses are smaller than 16 MiB. The error is a syscall.ECONNREFUSED if nothing listens
	// at the node's address.
	Ask(ctx context.Context, to int, request []byte) ([]byte, error)
}

// Local is the store of this node.
type Local interface {
	engine.Store
	// StartLoad begins a Load. The function that it returns waits for the snapshot, which has all that was
	// submitted before StartLoad and nothing of what is submitted after it has returned.
	StartLoad(ctx context.Context) (wait func() (*engine.Snapshot, error))
}

// Options configure a Replicator. Self, Local and Net are required.
type Options struct {
	Self  int // this node's number
	Local Local
	Net   Net
	Log   *slog.Logger

	// Agreer decides whether sessions may continue from a replica; without one no replica is promoted. Superseded,
	// which it requires, is called when sessions have continued at a node: it ends those of this node whose client
	// ids has reports, and returns when that is submitted. It is repeated after an error.
	Agreer     Agreer
	Superseded func(ctx context.Context, node int, has func(clientID string) bool) error

	// Timeout is how long changes wait for the node of their replica before they are acknowledged without it;
	// 3 s. RefusedTimeout is the same for a node that refuses connections, because its process has ended; 0.5 s.
	Timeout, RefusedTimeout time.Duration
	// RetryInterval is the time after which a replica that was given up is begun anew; 1 s.
	RetryInterval time.Duration
	// MaxQueued bounds the encoded changes that wait for all other nodes, in bytes; 64 MiB. Beyond it
	// publishers wait.
	MaxQueued int64
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 64 << 20
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&o.Timeout, 3 * time.Second}, {&o.RefusedTimeout, 500 * time.Millisecond}, {&o.RetryInterval, time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
}

// hashOf returns the hash by which the node for the replica of a client's session is chosen.
func hashOf(clientID string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(clientID)) //nolint:errcheck // a hash takes all bytes
	return h.Sum64()
}

// choose returns the node that has the replicas of sessions with a hash, by rendezvous hashing: if a node is
// removed, only its replicas move. It returns 0 without nodes.
func choose(hash uint64, nodes []int) (node int) {
	best := uint64(0)
	for _, n := range nodes {
		if weight := mix(hash ^ mix(uint64(n))); node == 0 || weight > best || weight == best && n < node {
			node, best = n, weight
		}
	}
	return node
}

// mix is the finalizer of SplitMix64: every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
