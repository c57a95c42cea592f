package embedded

import (
	"context"
	"slices"
	"time"

	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/engine"
)

// controlTimeout bounds a request.
const controlTimeout = 30 * time.Second

// noEndpoint is Mosquitto's response, byte for byte, to a request on a control topic
// without an API.
const noEndpoint = `{"error": "endpoint not available"}`

// maxTopic is the maximum length of a topic in bytes.
const maxTopic = 65535

// dispatch handles a request to a control API. The response is published before any client
// is disconnected, so that an administrator who changes its own rights receives it.
func (b *Broker) dispatch(r *engine.Request) {
	if id, ok := b.bridgeOf(r.Topic); ok {
		b.handleBridge(id, r)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	defer b.logSlow(r, time.Now())
	var disconnects []dynsec.Disconnect
	var answer []byte
	topic := r.Topic
	if b.isDisabled(topic) {
		topic = ""
	}
	switch topic {
	case dynsec.Topic:
		defer b.cluster.track(r.Client().Username)()
		answer = b.audited(r, func() (answer []byte) {
			answer, disconnects = b.control.Handle(ctx, r.Payload)
			return answer
		})
	case control.BrokerTopic:
		answer = control.BrokerInfo(ctx, b.plugins(ctx), b.ListListeners, r.Payload)
	case control.InspectTopic:
		answer = control.Inspect(ctx, b, r.Payload)
	case control.ClientControlTopic:
		answer = b.audited(r, func() []byte { return control.ClientControl(ctx, b, r.Payload) })
	case control.StreamTopic:
		answer = b.audited(r, func() []byte { return b.commandStreams(ctx, r.Payload) })
	case control.HATopic:
		b.handleHA(ctx, r)
		return
	case control.TopicTreeTopic:
		answer = b.audited(r, func() []byte { return control.TopicTree(ctx, b.tree, b, r.Payload) })
	case control.LicenseTopic:
		answer = control.LicenseInfo(ctx, b.GetLicense, r.Payload)
	default:
		if topic := r.Topic + control.ResponseSuffix; len(topic) <= maxTopic {
			r.Reply(topic, []byte(noEndpoint))
		}
		return
	}
	b.respond(r.Topic+control.ResponseSuffix, answer)
	b.disconnect(disconnects)
}

// handleHA handles a request about clusters. The response is for the requester alone: it
// may contain the keys of nodes. While the broker enters a cluster that shares the audit log, its record ends
// after the response: it waits until the broker is admitted, for which that of other nodes may be needed.
func (b *Broker) handleHA(ctx context.Context, r *engine.Request) {
	b.cluster.beginCommand()
	answer, end := b.begun(r, func() []byte { return control.HA(ctx, commander{b.cluster, r.AdminOnly()}, r.Payload) })
	if b.cluster.isEntering() && b.cluster.sharesData.Load() {
		b.cluster.beginCommand()
		defer b.tasks.Go(func() {
			end()
			b.cluster.disconnectDeferred()
		})
	} else {
		end()
	}
	if answer == nil {
		b.log.Warn("a control request was not answered in time", "topic", r.Topic)
	} else {
		r.Reply(r.Topic+control.ResponseSuffix, answer)
	}
	b.cluster.disconnectDeferred()
}

// isDisabled reports whether a control API is not available in the broker's configuration.
func (b *Broker) isDisabled(topic string) bool {
	return topic == control.StreamTopic && b.config.Streams == nil || topic == control.HATopic && b.cluster == nil
}

// respond publishes a response to all clients that are subscribed to it and may receive it.
// Nil means that the request timed out; it may still be executed.
func (b *Broker) respond(topic string, payload []byte) {
	if payload == nil {
		b.log.Warn("a control request was not answered in time", "topic", topic)
		return
	}
	b.engine.Publish(&engine.Message{Topic: topic, Payload: payload, CreatedAt: b.timeline.Now().UnixMilli()}) //nolint:errcheck // QoS 0: nothing is stored
}

// disconnect disconnects the clients whose rights or credentials changed. It does not wait
// for that; their rights are the new ones already.
func (b *Broker) disconnect(disconnects []dynsec.Disconnect) {
	for _, c := range disconnects {
		if c.Anonymous {
			b.engine.DisconnectUser("")
			continue
		}
		b.engine.DisconnectUser(c.Username)
	}
}

// plugins returns the parts of the broker with a control API.
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
	all = slices.DeleteFunc(all, func(p control.Plugin) bool { return b.isDisabled(p.Endpoints[0]) })
	return append(all, b.bridgePlugins(ctx)...)
}
