package embedded

import (
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// OnSelectSubscribers narrows the members of shared subscriptions among whom the
// server picks one each: to those that are connected, if any is, and to filters
// that a topic in $ is within the reach of [MQTT-4.7.2-1].
func (h *hook) OnSelectSubscribers(subs *mqtt.Subscribers, pk packets.Packet) *mqtt.Subscribers {
	for shared, members := range subs.Shared {
		if strings.HasPrefix(pk.TopicName, "$") && beginsWithWildcard(shared) {
			delete(subs.Shared, shared)
			continue
		}
		h.b.preferConnected(members)
	}
	return subs
}

// beginsWithWildcard looks at the filter in "$share/group/filter".
func beginsWithWildcard(shared string) bool {
	parts := strings.SplitN(shared, "/", 3)
	return len(parts) == 3 && (strings.HasPrefix(parts[2], "+") || strings.HasPrefix(parts[2], "#"))
}

// preferConnected takes out the members that are away, unless all are.
func (b *Broker) preferConnected(members map[string]packets.Subscription) {
	var away []string
	for id := range members {
		if cl, ok := b.server.Clients.Get(id); !ok || cl.Closed() {
			away = append(away, id)
		}
	}
	if len(away) == len(members) {
		return
	}
	for _, id := range away {
		delete(members, id)
	}
}
