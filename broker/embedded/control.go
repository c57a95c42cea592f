package embedded

import (
	"context"
	"slices"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/engine"
)

// controlTimeout is how long a request may take.
const controlTimeout = 30 * time.Second

// noEndpoint is Mosquitto's answer, byte for byte, where no control API is.
const noEndpoint = `{"error": "endpoint not available"}`

// maxTopic is the length of the longest topic in bytes.
const maxTopic = 65535

// dispatch does a request to a control API. The answer goes out before anybody
// is cut off, also to an administrator who changed itself.
func (b *Broker) dispatch(r *engine.Request) {
	if id, ok := b.bridgeOf(r.Topic); ok {
		b.answerBridge(id, r)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	var cuts []dynsec.Cut
	var answer []byte
	topic := r.Topic
	if b.lacks(topic) {
		topic = ""
	}
	switch topic {
	case dynsec.Topic:
		defer b.cluster.asks(r.Client().Username)()
		answer, cuts = b.control.Handle(ctx, r.Payload)
	case control.BrokerTopic:
		answer = control.BrokerInfo(ctx, b.plugins(ctx), b.ListListeners, r.Payload)
	case control.InspectTopic:
		answer = control.Inspect(ctx, b, r.Payload)
	case control.ClientControlTopic:
		answer = control.ClientControl(ctx, b, r.Payload)
	case control.StreamTopic:
		answer = control.Streams(ctx, b, b.GetLicense, r.Payload)
	case control.HATopic:
		b.answerHA(ctx, r)
		return
	case control.TopicTreeTopic:
		answer = control.TopicTree(ctx, b.tree, b, r.Payload)
	case control.LicenseTopic:
		answer = control.LicenseInfo(ctx, b.GetLicense, r.Payload)
	default:
		if topic := r.Topic + control.ResponseSuffix; len(topic) <= maxTopic {
			r.Reply(topic, []byte(noEndpoint))
		}
		return
	}
	b.answer(r.Topic+control.ResponseSuffix, answer)
	b.cut(cuts)
}

// answerHA does a request about clusters. The answer is for the requester alone:
// it may hold the keys of nodes.
func (b *Broker) answerHA(ctx context.Context, r *engine.Request) {
	answer := control.HA(ctx, commander{b.cluster, r.AdminOnly()}, r.Payload)
	if answer == nil {
		b.log.Warn("a control request was not answered in time", "topic", r.Topic)
	} else {
		r.Reply(r.Topic+control.ResponseSuffix, answer)
	}
	b.cluster.answered()
}

// lacks tells whether a control API is not offered as the broker is configured.
func (b *Broker) lacks(topic string) bool {
	return topic == control.StreamTopic && b.streams == nil || topic == control.HATopic && b.cluster == nil
}

// answer publishes an answer to all who are subscribed to it and may receive
// it. Nil means that there is none in time; the request may still be done.
func (b *Broker) answer(topic string, payload []byte) {
	if payload == nil {
		b.log.Warn("a control request was not answered in time", "topic", topic)
		return
	}
	b.engine.Publish(&engine.Message{Topic: topic, Payload: payload, CreatedAt: b.timeline.Now().UnixMilli()}) //nolint:errcheck // QoS 0: nothing is stored
}

// cut throws out the clients whose rights or credentials changed. It does not
// wait for them to be gone; their rights are the new ones already.
func (b *Broker) cut(cuts []dynsec.Cut) {
	for _, c := range cuts {
		if c.Anonymous {
			b.engine.DisconnectUser("")
			continue
		}
		b.engine.DisconnectUser(c.Username)
	}
}

// plugins are the parts of the broker with a control API.
func (b *Broker) plugins(ctx context.Context) []control.Plugin {
	part := func(name, topic string) control.Plugin {
		return control.Plugin{Name: name, Version: b.config.Version, Endpoints: []string{topic}}
	}
	all := []control.Plugin{
		part("broker", control.BrokerTopic), part("dynamic-security", dynsec.Topic),
		part("inspect", control.InspectTopic), part("client-control", control.ClientControlTopic),
		part("stream-processing", control.StreamTopic), part("topic-tree", control.TopicTreeTopic),
		part("license", control.LicenseTopic), part("cluster", control.HATopic),
	}
	all = slices.DeleteFunc(all, func(p control.Plugin) bool { return b.lacks(p.Endpoints[0]) })
	return append(all, b.bridgePlugins(ctx)...)
}
