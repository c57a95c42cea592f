package embedded

import (
	"log/slog"
	"math"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Limits of the server's sessions.
const (
	writesPending  = 2048 // packets queued for a connected client; beyond, the newest PUBLISH is dropped
	inflightLimit  = 8192 // QoS 1 and 2 messages kept for a client; beyond, the newest is dropped
	receiveMaximum = 1024 // QoS 1 and 2 messages that a client may have under way to the broker
)

// newServer makes the server with our hook in it, and the client in whose name
// the broker itself publishes.
func newServer(b *Broker) (server *mqtt.Server, self *mqtt.Client) {
	server = mqtt.New(&mqtt.Options{
		Capabilities:             serverCapabilities(b.config),
		SysTopicResendInterval:   math.MaxInt32,                 // $SYS is ours
		ClientNetWriteBufferSize: 1,                             // every packet goes out at once; see DESIGN.md
		Logger:                   slog.New(slog.DiscardHandler), // it would log payloads and passwords
	})
	server.AddHook(&hook{b: b}, nil) //nolint:errcheck // our Init cannot fail
	self = server.NewClient(nil, mqtt.LocalListener, "", true)
	self.Properties.ProtocolVersion = 5 // so that a Will keeps its expiry
	return server, self
}

// serverCapabilities turns off what would expire or alias messages unasked.
func serverCapabilities(c Config) *mqtt.Capabilities {
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumMessageExpiryInterval = 0 // only where the publisher asks for it
	capabilities.MaximumClientWritesPending = writesPending
	capabilities.MaximumInflight = inflightLimit
	capabilities.ReceiveMaximum = receiveMaximum
	capabilities.MaximumPacketSize = uint32(c.MaxPacketSize)
	capabilities.TopicAliasMaximum = 0
	capabilities.Compatibilities.NoInheritedPropertiesOnAck = true
	return capabilities
}

// publish hands a message of the broker's own, or a client's Will, to the
// subscribers that may receive it.
func (b *Broker) publish(pk packets.Packet) {
	pk.FixedHeader.Type = packets.Publish
	if pk.FixedHeader.Qos > 0 {
		pk.PacketID = 1 // asked for, not used: nobody acknowledges to the broker itself
	}
	if err := b.server.InjectPacket(b.self, pk); err != nil {
		b.log.Error("a message of the broker could not be published", "topic", pk.TopicName, "error", err)
	}
}
