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

// bridgeConnection is a connection of a bridge with one topic mapping.
type bridgeConnection struct {
	kind, name string
	target     members // address of the target
	options    members
	mapping    members // members that are specific to the kind
	topics     []string
}

func (c bridgeConnection) document() members {
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

// bridgedProduct is a product with configured bridges.
type bridgedProduct struct {
	*product
	connections []bridgeConnection
}

// newBridgedProduct starts a fresh product with that access control.
func (b *bench) newBridgedProduct(ctx context.Context, a access, settings ...string) (*bridgedProduct, error) {
	p, err := b.newLoaded(ctx, a, settings...)
	if err != nil {
		return nil, err
	}
	return &bridgedProduct{product: p}, p.makeToken(ctx)
}

func (p *bridgedProduct) competitor(name string) competitor {
	return competitor{name: name, server: p.child, target: p.access.target(p.mqtt)}
}

// bridge returns the URL of a bridge.
func (p *bridgedProduct) bridge(kind string) string {
	return strings.TrimSuffix(p.clients, "/clients") + "/bridges/" + kind
}

// connect adds connections; one with the name of an existing connection replaces it.
func (p *bridgedProduct) connect(ctx context.Context, list ...bridgeConnection) error {
	var kinds []string
	for _, c := range list {
		i := slices.IndexFunc(p.connections, func(old bridgeConnection) bool { return old.kind == c.kind && old.name == c.name })
		if i < 0 {
			p.connections = append(p.connections, c)
		} else {
			p.connections[i] = c
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

func (p *bridgedProduct) configure(ctx context.Context, kind string) error {
	connections := []members{}
	for _, c := range p.connections {
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
func (p *bridgedProduct) status(ctx context.Context, kind, name string) (s broker.BridgeStatus, err error) {
	var list []broker.BridgeStatus
	if err := p.decode(ctx, http.MethodGet, p.bridge(kind)+"/status", "", &list); err != nil {
		return s, err
	}
	i := slices.IndexFunc(list, func(s broker.BridgeStatus) bool { return s.ConnectionName == name })
	if i < 0 || list[i].Stats == nil {
		return s, fmt.Errorf("%s reports no status of its connection %s", kind, name)
	}
	return list[i], nil
}

// awaitStatus waits until the status of a connection satisfies a condition.
func (p *bridgedProduct) awaitStatus(ctx context.Context, c bridgeConnection, what string, is func(broker.BridgeStatus) bool) error {
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

func isConnected(s broker.BridgeStatus) bool { return s.IsConnected }

// finished returns how many messages no longer wait for the target.
func finished(s broker.BridgeStatus) int64 {
	return s.Stats.Delivered + s.Stats.Dropped + s.Stats.Rejected
}

// accepted returns how many messages were queued, delivered or dropped.
func accepted(s broker.BridgeStatus) int64 { return finished(s) + s.QueuedMessages }

// counting returns a function that reads one of these counts, for a load.
func (p *bridgedProduct) counting(c bridgeConnection, count func(broker.BridgeStatus) int64) func(context.Context) (int64, error) {
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
