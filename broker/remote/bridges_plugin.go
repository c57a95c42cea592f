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

// bridgePlugins are bridges that a broker has itself.
type bridgePlugins struct{ *Broker }

// ListBridges returns the bridges that respond, and those in the broker's licence that are not
// loaded.
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

// loaded returns the bridges that respond.
func (p bridgePlugins) loaded(ctx context.Context) ([]broker.Bridge, error) {
	var l control.Plugins
	err := p.ask(ctx, broker.CapBridges, control.BrokerTopic, control.ListPlugins(), &l)
	return bridgesOf(l), err
}

// bridgesOf returns the bridges among plugins, each once.
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

// licensed returns the bridges in the broker's licence; none if it has no licence.
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

// GetBridgeConfig returns the configuration and masks likely secrets, because most brokers do
// not.
func (p bridgePlugins) GetBridgeConfig(ctx context.Context, bridgeID string) (json.RawMessage, error) {
	stored, err := p.config(ctx, bridgeID)
	if err != nil {
		return nil, err
	}
	return masked(stored), nil
}

// config returns the configuration with its secrets.
func (p bridgePlugins) config(ctx context.Context, bridgeID string) (config json.RawMessage, err error) {
	err = p.command(ctx, bridgeID, control.GetBridgeConfig(), &config)
	return config, err
}

// SetBridgeConfig sends a configuration in which masks are replaced by the broker's secrets.
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

// GetBridgeStatus returns the state of a bridge's connections.
func (p bridgePlugins) GetBridgeStatus(ctx context.Context, bridgeID string) ([]broker.BridgeStatus, error) {
	var l control.BridgeStatusList
	err := p.command(ctx, bridgeID, control.GetBridgeStatus(), &l)
	return l, err
}

// GetBridgeSchema returns the schema, which only a signalbox has.
func (p bridgePlugins) GetBridgeSchema(ctx context.Context, bridgeID string) (schema json.RawMessage, err error) {
	err = p.command(ctx, bridgeID, control.GetBridgeSchema(), &schema)
	return schema, err
}

// TestBridge tests a configuration; see GetBridgeSchema.
func (p bridgePlugins) TestBridge(ctx context.Context, bridgeID string, config json.RawMessage) ([]broker.BridgeTest, error) {
	var l control.BridgeTestList
	r := aboutBridge(bridgeID, control.TestBridge(config))
	r.takesLong = true
	err := p.request(ctx, bridgeID, r, &l)
	return l, err
}

// PreviewBridge returns Unsupported: no bridge plugin has such a command.
func (bridgePlugins) PreviewBridge(context.Context, string, json.RawMessage, broker.PublishSpec) ([]broker.BridgePreview, error) {
	return nil, &broker.Error{Kind: broker.Unsupported, Op: "previewBridge", Feature: broker.CapBridges,
		Msg: "this broker's own bridges have no preview of messages"}
}

// ListDeadLetters returns a page, fetched while it is read; see GetBridgeSchema.
func (p bridgePlugins) ListDeadLetters(ctx context.Context, bridgeID, connectionName string, offset, count int) (broker.Page[broker.DeadLetter], error) {
	return pages.List(ctx, pages.Source[broker.DeadLetter]{
		Name: func(l broker.DeadLetter) string { return fmt.Sprintf("%20s", l.ID) }, // in numerical order
		Fetch: func(ctx context.Context, _ bool, count, offset int) (int, []broker.DeadLetter, error) {
			var l control.DeadLetterList
			err := p.about(ctx, bridgeID, connectionName, control.ListDeadLetters(connectionName, offset, count), &l)
			return l.Total, l.DeadLetters, err
		},
	}, broker.ListOptions[broker.DeadLetter]{Offset: offset, Count: count})
}

// RetryDeadLetters delivers dead letters again; see GetBridgeSchema.
func (p bridgePlugins) RetryDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	var n control.DeadLetterCount
	err := p.about(ctx, bridgeID, connectionName, control.RetryDeadLetters(connectionName, ids), &n)
	return n.Count, err
}

// DeleteDeadLetters deletes dead letters; see GetBridgeSchema.
func (p bridgePlugins) DeleteDeadLetters(ctx context.Context, bridgeID, connectionName string, ids []string) (int, error) {
	var n control.DeadLetterCount
	err := p.about(ctx, bridgeID, connectionName, control.DeleteDeadLetters(connectionName, ids), &n)
	return n.Count, err
}

// about sends a command about a connection. A name that is not UTF-8 cannot exist, since JSON
// cannot contain it.
func (p bridgePlugins) about(ctx context.Context, bridgeID, connectionName string, c control.Command, data any) error {
	if !utf8.ValidString(connectionName) {
		return &broker.Error{Kind: broker.NotFound, Op: c.Name, Msg: "Connection not found"}
	}
	return p.command(ctx, bridgeID, c, data)
}

// command sends a command about a bridge of the broker.
func (p bridgePlugins) command(ctx context.Context, bridgeID string, c control.Command, data any) error {
	return p.request(ctx, bridgeID, aboutBridge(bridgeID, c), data)
}

// aboutBridge returns a request about a bridge.
func aboutBridge(bridgeID string, c control.Command) request {
	return request{op: c.Name, object: bridgeID, topic: control.BridgeTopic(bridgeID), feature: broker.CapBridges, encode: c.Encode, subscribesLate: true}
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

// look returns why the broker does not support a bridge that was unknown at the beginning of
// the session, or nil if it does by now.
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
