package client

import (
	"cmp"
	"errors"

	"signalbox/broker"
	"signalbox/broker/mqtt/packet"
)

// SessionOptions determines how a Client appears to its broker. The zero value is that of
// streams.
type SessionOptions struct {
	Version    byte // of MQTT, if only one is to be tried
	CleanStart bool // no session outlives its connection
	// ReceiveOnly makes no connection to publish on: nothing can be published.
	ReceiveOnly bool
	Expiry      uint32 // Session Expiry Interval in seconds; 0 for an hour
	// KeepInFlight keeps messages in flight for the next connection as long as Run runs,
	// instead of giving them up, unless others use the session meanwhile.
	KeepInFlight   bool
	BridgeIdentity string // identifies this side to brokers that support bridges; "" for none
	// StateTopic is a topic with a retained state: 1 while the publisher is connected, 0 when
	// the connection was lost; "" for none.
	StateTopic string
	// OnChange is called when a connection was made or lost, or a subscription was
	// acknowledged. It must neither block nor call back; nil for none.
	OnChange func()
}

// Peer is what a broker has sent about itself.
type Peer struct {
	Version  byte   // of MQTT; 0 before the first connection
	Identity string // among bridges; "" if it has none
}

// Peer returns what the broker sent on the latest connection. It is set before the first
// message is received.
func (c *Client) Peer() Peer {
	if p := c.peer.Load(); p != nil {
		return *p
	}
	return Peer{}
}

// ErrNotConnectedYet is the cause of an error while the first attempt to connect has not
// ended.
var ErrNotConnectedYet = errors.New("the first attempt to connect has not ended yet")

// ConnectionError returns why a required connection is down, or nil if all are up.
func (c *Client) ConnectionError() error {
	if err := c.publisher.currentError(); err != nil && !c.options.Session.ReceiveOnly {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.subscribers {
		switch {
		case l.idle() || l.conn != nil:
		case l.cause != nil:
			return l.cause
		default:
			return &broker.Error{Kind: broker.Unavailable, Op: "subscribe", Msg: "the connection to receive on is not made yet; try again", Err: ErrNotConnectedYet}
		}
	}
	return nil
}

// Attempts returns the number of attempts to connect that have ended.
func (c *Client) Attempts() uint64 { return c.attempts.Load() }

// The payloads of SessionOptions.StateTopic.
var stateLost, stateConnected = []byte("0"), []byte("1")

// applyTo sets the fields of a CONNECT.
func (o *SessionOptions) applyTo(c *packet.Connect, p connectParams) {
	c.Peer = o.BridgeIdentity
	if p.keep {
		c.SessionExpiry, c.HasSessionExpiry = cmp.Or(o.Expiry, defaultSessionExpiry), true
	}
	if p.publishState && o.StateTopic != "" {
		c.Will = &packet.Will{Topic: o.StateTopic, Payload: stateLost, Retain: true}
	}
}

// appendState appends a PUBLISH to StateTopic.
func (o *SessionOptions) appendState(dst []byte, version byte, payload []byte) []byte {
	if o.StateTopic == "" {
		return dst
	}
	return packet.AppendPublish(dst, version, &packet.Outgoing{Topic: o.StateTopic, Payload: payload, Retain: true})
}
