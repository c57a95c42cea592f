package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
)

// bridgePlugins are the bridges that a broker has itself.
type bridgePlugins struct{ *Broker }

// ListBridges gives the bridges that answer, and those that the broker's licence
// names though they are not loaded.
func (p bridgePlugins) ListBridges(ctx context.Context) ([]broker.Bridge, error) {
	list, err := p.loaded(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range p.licensed(ctx) {
		if !slices.ContainsFunc(list, func(b broker.Bridge) bool { return b.ID == id }) {
			list = append(list, broker.Bridge{ID: id})
		}
	}
	slices.SortFunc(list, func(a, b broker.Bridge) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// loaded gives the bridges that answer.
func (p bridgePlugins) loaded(ctx context.Context) ([]broker.Bridge, error) {
	var l control.Plugins
	err := p.ask(ctx, broker.CapBridges, control.BrokerTopic, control.ListPlugins(), &l)
	return bridgesOf(l), err
}

// bridgesOf gives the bridges among plugins, each once.
func bridgesOf(l control.Plugins) []broker.Bridge {
	list := []broker.Bridge{}
	for _, p := range l.Plugins {
		for _, topic := range p.Endpoints {
			id, ok := control.BridgeID(topic)
			if ok && !slices.ContainsFunc(list, func(b broker.Bridge) bool { return b.ID == id }) {
				list = append(list, broker.Bridge{ID: id, IsActive: p.Active == nil || *p.Active})
			}
		}
	}
	return list
}

// licensed gives the bridges that the broker's licence names; none where it shows
// no licence.
func (p bridgePlugins) licensed(ctx context.Context) (ids []string) {
	l, err := p.GetLicense(ctx)
	if err != nil {
		return nil
	}
	for _, feature := range l.Features {
		if id := strings.ToLower(strings.ReplaceAll(feature, "_", "-")); control.IsBridgeID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// GetBridgeConfig asks for the configuration and masks what looks like a secret,
// for most brokers show them.
func (p bridgePlugins) GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	stored, err := p.config(ctx, bridgeID)
	if err != nil {
		return nil, err
	}
	return masked(stored), nil
}

// config asks for the configuration as the broker has it.
func (p bridgePlugins) config(ctx context.Context, bridgeID string) (config json.RawMessage, err error) {
	err = p.command(ctx, bridgeID, control.GetBridgeConfig(), &config)
	return config, err
}

// SetBridgeConfig has the broker take a configuration, in which secrets that are
// masked are those that it has.
func (p bridgePlugins) SetBridgeConfig(ctx context.Context, bridgeID string, config json.RawMessage) error {
	if holdsMask(config) {
		stored, err := p.config(ctx, bridgeID)
		if err != nil {
			return err
		}
		var bad []broker.Field
		if config, bad = unmasked(config, stored); len(bad) > 0 {
			return &broker.Error{Kind: broker.Invalid, Op: "setBridgeConfig", Fields: bad,
				Msg: fmt.Sprintf("%s: %s", bad[0].Path, bad[0].Msg)}
		}
	}
	return p.command(ctx, bridgeID, control.UpdateBridgeConfig(config), nil)
}

// GetBridgeStatus asks for the state of a bridge's connections.
func (p bridgePlugins) GetBridgeStatus(ctx context.Context, bridgeID string) ([]broker.BridgeStatus, error) {
	var l control.BridgeStatusList
	err := p.command(ctx, bridgeID, control.GetBridgeStatus(), &l)
	return l, err
}

// GetBridgeSchema asks for the schema, which only brokers of our kind have.
func (p bridgePlugins) GetBridgeSchema(ctx context.Context, bridgeID string) (schema json.RawMessage, err error) {
	err = p.command(ctx, bridgeID, control.GetBridgeSchema(), &schema)
	return schema, err
}

// TestBridge has the broker try a configuration; see GetBridgeSchema.
func (p bridgePlugins) TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]broker.BridgeTest, error) {
	var l control.BridgeTestList
	r := aboutBridge(bridgeID, control.TestBridge(config))
	r.waits = true
	err := p.request(ctx, bridgeID, r, &l)
	return l, err
}

// ListDeadLetters gives a part of them, fetched as it is read; see GetBridgeSchema.
func (p bridgePlugins) ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	return pages.List(ctx, pages.Source[broker.DeadLetter]{
		Name: func(l broker.DeadLetter) string { return fmt.Sprintf("%20s", l.ID) }, // in the order of numbers
		Fetch: func(ctx context.Context, _ bool, count, offset int) (int, []broker.DeadLetter, error) {
			var l control.DeadLetterList
			err := p.about(ctx, bridgeID, connectionName, control.ListDeadLetters(connectionName, offset, count), &l)
			return l.Total, l.DeadLetters, err
		},
	}, broker.ListOptions[broker.DeadLetter]{Offset: offset, Count: count})
}

// RetryDeadLetters has the broker deliver them again; see GetBridgeSchema.
func (p bridgePlugins) RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	var n control.DeadLetterCount
	err := p.about(ctx, bridgeID, connectionName, control.RetryDeadLetters(connectionName, ids), &n)
	return n.Count, err
}

// DeleteDeadLetters has the broker delete them; see GetBridgeSchema.
func (p bridgePlugins) DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	var n control.DeadLetterCount
	err := p.about(ctx, bridgeID, connectionName, control.DeleteDeadLetters(connectionName, ids), &n)
	return n.Count, err
}

// about asks a command about a connection. What is no UTF-8 cannot be said in JSON,
// and is the name of none.
func (p bridgePlugins) about(ctx context.Context, bridgeID, connectionName string, c control.Command, data any) error {
	if !utf8.ValidString(connectionName) {
		return &broker.Error{Kind: broker.NotFound, Op: c.Name, Msg: "Connection not found"}
	}
	return p.command(ctx, bridgeID, c, data)
}

// command asks a command of a bridge that the broker has.
func (p bridgePlugins) command(ctx context.Context, bridgeID string, c control.Command, data any) error {
	return p.request(ctx, bridgeID, aboutBridge(bridgeID, c), data)
}

// aboutBridge is a request about a bridge.
func aboutBridge(bridgeID string, c control.Command) request {
	return request{op: c.Name, topic: control.BridgeTopic(bridgeID), feature: broker.CapBridges, encode: c.Encode, apart: true}
}

func (p bridgePlugins) request(ctx context.Context, bridgeID string, r request, data any) error {
	if !p.link.hasBridge(bridgeID) {
		if err := p.look(ctx, bridgeID, r.op); err != nil {
			return err
		}
	}
	err := p.read(ctx, r, data)
	if e, ok := errors.AsType[*broker.Error](err); ok && e.Kind == broker.Internal && e.Err == nil {
		e.Kind = kindOfRefusal(e.Msg)
	}
	return err
}

// look tells why a bridge cannot be asked that the broker did not have when the
// session began, nil if it can by now.
func (p bridgePlugins) look(ctx context.Context, bridgeID, op string) error {
	list, err := p.loaded(ctx)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(list, func(b broker.Bridge) bool { return b.ID == bridgeID }):
		return nil
	case slices.Contains(p.licensed(ctx), bridgeID):
		return &broker.Error{Kind: broker.Unsupported, Op: op, Feature: broker.CapBridges,
			Msg: fmt.Sprintf("the broker's licence names %s, but the broker has not loaded its plugin", bridgeID)}
	}
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the broker has no bridge with this id"}
}
