package mqtttest

import "signalbox/broker/mqtt/mqtttest/packet"

// Option changes a packet before it is sent.
type Option func(*packet.Packet)

// NewConnect returns a CONNECT with a clean session.
func NewConnect(clientID string, options ...Option) packet.Packet {
	pk := packet.Packet{Type: packet.Connect, Connect: packet.ConnectFields{ClientID: clientID, CleanStart: true}}
	for _, o := range options {
		o(&pk)
	}
	return pk
}

// As sets username and password; "" omits the password.
func As(username, password string) Option {
	return func(pk *packet.Packet) {
		pk.Connect.HasUsername, pk.Connect.Username = true, username
		if password != "" {
			pk.Connect.HasPassword, pk.Connect.Password = true, password
		}
	}
}

// WithID sets the client id.
func WithID(id string) Option { return func(pk *packet.Packet) { pk.Connect.ClientID = id } }

// KeepAlive sets the keep alive time.
func KeepAlive(seconds uint16) Option {
	return func(pk *packet.Packet) { pk.Connect.KeepAlive = seconds }
}

// Persistent requests a session that outlives its connection, in MQTT 5 by an hour.
func Persistent(pk *packet.Packet) { pk.Connect.CleanStart, pk.Properties.SessionExpiry = false, 3600 }

// WithWill sets a Will of QoS 0.
func WithWill(topic, payload string) Option {
	return func(pk *packet.Packet) {
		pk.Connect.HasWill = true
		pk.Connect.Will.Topic, pk.Connect.Will.Payload = topic, []byte(payload)
	}
}

// WillDelay sets the Will Delay Interval.
func WillDelay(seconds uint32) Option {
	return func(pk *packet.Packet) { pk.Connect.Will.Properties.WillDelay = seconds }
}

// Retained sets RETAIN.
func Retained(pk *packet.Packet) { pk.Retain = true }
