package bridges

import (
	"context"
	"encoding/json"
	"strings"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Bounds of a preview.
const (
	maxPreviews   = 100      // topic mappings
	maxPreview    = 16 << 10 // bytes of a payload that are shown
	maxAttributes = 100      // of a topic mapping
)

// previewID is the MessageID of the entry that is shown.
const previewID = "preview"

// PreviewBridge returns what a message becomes for each topic mapping that takes it, with a
// configuration, by default the stored one. Nothing is connected, stored or delivered.
func (e *Engine) PreviewBridge(ctx context.Context, bridgeID string, config json.RawMessage, sample broker.PublishSpec) ([]broker.BridgePreview, error) {
	b, err := e.find(ctx, opSample, bridgeID)
	if err != nil {
		return nil, err
	}
	properties, err := messaging.EncodeProperties(sample)
	if err != nil {
		return nil, &broker.Error{Kind: broker.Invalid, Op: opSample, Msg: "a property cannot be sent", Err: err}
	}
	m := messaging.Message{Topic: sample.Topic, Payload: sample.Payload, Properties: properties, QoS: byte(sample.QoS), Retain: sample.Retain, At: e.host.Now().UnixMilli()}
	var list []broker.BridgePreview
	err = e.try(ctx, opSample, e.previewSlots, func(ctx context.Context) error {
		list, err = b.preview(ctx, config, &m)
		return err
	})
	return list, err
}

// preview returns the previews of a document, in the order of its topic mappings.
func (b *bridge) preview(ctx context.Context, config json.RawMessage, m *messaging.Message) ([]broker.BridgePreview, error) {
	d, connectors, err := b.compileTrial(opSample, config)
	if err != nil {
		return nil, err
	}
	list := []broker.BridgePreview{}
	for i, c := range d.connections {
		for _, r := range routesOf(c, connectors[i]) {
			if len(list) < maxPreviews && ctx.Err() == nil && !strings.HasPrefix(m.Topic, "$") && r.matchesTopic(m.Topic) {
				list = append(list, b.previewEntry(c, connectors[i], &Entry{ID: 1, Mapping: r.mapping, Message: *m, MessageID: previewID}))
			}
		}
		b.discard(connectors[i])
	}
	return list, ctx.Err()
}

// previewEntry returns the preview of one topic mapping. It is not searched for secrets of the
// connection, which it has not: that would confirm those that a caller guesses in a message.
func (b *bridge) previewEntry(c *connection, connector Connector, e *Entry) broker.BridgePreview {
	shown := broker.BridgePreview{ConnectionName: c.name, Mapping: e.Mapping}
	var p Preview
	err, _ := callSafely(b.log, func() (err error) {
		p, err = connector.Preview(e)
		return err
	})
	if err != nil {
		shown.Error, _, _ = broker.ShowPayload([]byte(err.Error()), broker.PreviewLimit)
		return shown
	}
	shown.Attributes = p.Attributes
	shown.Destination, _, _ = broker.ShowPayload([]byte(p.Destination), maxPreview)
	shown.Size = len(p.Payload)
	shown.Payload, shown.Encoding, shown.Truncated = broker.ShowPayload(p.Payload, maxPreview)
	return shown
}
