//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/scripts/bench/load"
	"signalbox/scripts/bench/sink"
)

// The ids of the kinds of bridges that are measured.
const (
	httpBridge = "http-bridge"
	mqttBridge = "mqtt-bridge"
	natsBridge = "nats-bridge"
)

// members are the members of a JSON object.
type members map[string]any

// conduit is a connection of a bridge with one topic mapping.
type conduit struct {
	kind, name string
	target     members // address of the target
	options    members
	mapping    members // members that are specific to the kind
	topics     []string
}

func (c conduit) document() members {
	mapping := members{"name": "all", "mqttTopics": c.topics}
	for name, value := range c.mapping {
		mapping[name] = value
	}
	d := members{"name": c.name, "connection": c.target, "topicMappings": []members{mapping}}
	if len(c.options) > 0 {
		d["options"] = c.options
	}
	return d
}

// bridging is a product with configured bridges.
type bridging struct {
	*product
	conduits []conduit
}

// newBridging starts a fresh product with that access control.
func (b *bench) newBridging(ctx context.Context, a access, settings ...string) (*bridging, error) {
	p, err := b.newLoaded(ctx, a, settings...)
	if err != nil {
		return nil, err
	}
	return &bridging{product: p}, p.makeToken(ctx)
}

func (p *bridging) rival(name string) competitor {
	return competitor{name: name, server: p.child, target: p.access.target(p.mqtt)}
}

// bridge returns the URL of a bridge.
func (p *bridging) bridge(kind string) string {
	return strings.TrimSuffix(p.clients, "/clients") + "/bridges/" + kind
}

// connect adds connections; one with the name of an existing connection replaces it.
func (p *bridging) connect(ctx context.Context, list ...conduit) error {
	var kinds []string
	for _, c := range list {
		i := slices.IndexFunc(p.conduits, func(old conduit) bool { return old.kind == c.kind && old.name == c.name })
		if i < 0 {
			p.conduits = append(p.conduits, c)
		} else {
			p.conduits[i] = c
		}
		if !slices.Contains(kinds, c.kind) {
			kinds = append(kinds, c.kind)
		}
	}
	for _, kind := range kinds {
		if err := p.configure(ctx, kind); err != nil {
			return err
		}
	}
	return nil
}

func (p *bridging) configure(ctx context.Context, kind string) error {
	connections := []members{}
	for _, c := range p.conduits {
		if c.kind == kind {
			connections = append(connections, c.document())
		}
	}
	body, err := json.Marshal(members{"connections": connections})
	if err != nil {
		return err
	}
	return p.call(ctx, http.MethodPut, p.bridge(kind)+"/config", string(body), http.StatusNoContent, io.Discard)
}

// status returns the status of a connection, with its counters.
func (p *bridging) status(ctx context.Context, kind, name string) (s broker.BridgeStatus, err error) {
	var list []broker.BridgeStatus
	if err := p.decode(ctx, http.MethodGet, p.bridge(kind)+"/status", "", &list); err != nil {
		return s, err
	}
	i := slices.IndexFunc(list, func(s broker.BridgeStatus) bool { return s.ConnectionName == name })
	if i < 0 || list[i].Stats == nil {
		return s, fmt.Errorf("%s does not tell of its connection %s", kind, name)
	}
	return list[i], nil
}

// awaitStatus waits until the status of a connection satisfies a condition.
func (p *bridging) awaitStatus(ctx context.Context, c conduit, what string, is func(broker.BridgeStatus) bool) error {
	var last broker.BridgeStatus
	err := until(ctx, c.kind+": "+what, func() (_ bool, err error) {
		last, err = p.status(ctx, c.kind, c.name)
		return err == nil && is(last), err
	})
	if err != nil {
		return fmt.Errorf("%w; its state is %+v and %+v", err, last, last.Stats)
	}
	return nil
}

func reached(s broker.BridgeStatus) bool { return s.IsConnected }

// gone returns how many messages no longer wait for the target.
func gone(s broker.BridgeStatus) int64 {
	return s.Stats.Delivered + s.Stats.Dropped + s.Stats.Rejected
}

// taken returns how many messages were queued, delivered or dropped.
func taken(s broker.BridgeStatus) int64 { return gone(s) + s.QueuedMessages }

// counting returns a function that reads one of these counts, for a load.
func (p *bridging) counting(c conduit, count func(broker.BridgeStatus) int64) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		s, err := p.status(ctx, c.kind, c.name)
		if err != nil {
			return 0, err
		}
		return count(s), nil
	}
}

// bridged returns a flow of JSON whose publishers have topics below its name.
func bridged(name string, qos byte) load.Flow {
	const publishers, window, acked = 64, 100, 20
	f := load.Flow{Publishers: publishers, Topics: publishers, Name: name, QoS: qos, Window: acked, JSON: true, Filter: "bench/" + name + "/#"}
	if qos == 0 {
		f.Window, f.Pings = window, true
	}
	return f
}

// sinkCommand runs this program as the targets of bridges.
const sinkCommand = "sink"

// newSinks starts this program as the targets.
func (b *bench) newSinks(ctx context.Context) (at sink.Targets, err error) {
	self, err := os.Executable()
	if err != nil {
		return at, err
	}
	ready := func(line string) bool {
		n, _ := fmt.Sscanf(line, "taking %s %s", &at.HTTP, &at.NATS) //nolint:errcheck // another line
		return n == 2
	}
	c, err := launch(ctx, nil, ready, self, sinkCommand)
	if err == nil {
		b.started = append(b.started, c)
	}
	return at, err
}

func serveSinks(ctx context.Context, out io.Writer) error {
	return sink.Serve(ctx, func(at sink.Targets) { fmt.Fprintf(out, "taking %s %s\n", at.HTTP, at.NATS) })
}
