package client

import (
	"cmp"
	"errors"

	"signalbox/broker"
	"signalbox/broker/mqtt/packet"
)

// Client is how a feed appears to its broker. The zero Client is that of streams.
type Client struct {
	Version byte   // of MQTT, where only one is to be tried
	Clean   bool   // no session outlives its connection
	Expiry  uint32 // seconds that a broker is asked to keep a session without a connection; 0 for an hour
	// Patient has what is under way when a connection is lost wait for the next one,
	// as long as Run runs, rather than being given up.
	Patient  bool
	Identity string // names this side to brokers that know bridges; "" for none
	// State is a topic that says, retained, 1 while there is a connection to
	// publish on and 0 when it was lost; "" for none.
	State string
	// Changed is called when a connection was made or lost, or a subscription
	// answered. It must neither wait nor call back; nil for none.
	Changed func()
}

// Peer is what a broker has told of itself.
type Peer struct {
	Version  byte   // of MQTT; 0 before the first connection
	Identity string // among bridges; "" where it tells none
}

// Peer gives what the broker has told on the latest connection. It is known
// before the first message is taken.
func (f *Feed) Peer() Peer {
	if p := f.peer.Load(); p != nil {
		return *p
	}
	return Peer{}
}

// ErrNotYet is the cause of an error where no attempt to connect has had an
// outcome.
var ErrNotYet = errors.New("no attempt to connect has had an outcome yet")

// Broken says why not all connections stand that are needed, nil if they do.
func (f *Feed) Broken() error {
	if err := f.publisher.reached(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lane {
		switch {
		case l.idle() || l.conn != nil:
		case l.cause != nil:
			return l.cause
		default:
			return &broker.Error{Kind: broker.Unavailable, Op: "subscribe", Msg: "the connection to receive on is not made yet; try again", Err: ErrNotYet}
		}
	}
	return nil
}

// Tries counts the attempts to connect that have had an outcome.
func (f *Feed) Tries() uint64 { return f.tries.Load() }

// states are the payloads of Client.State.
var stateLost, stateStanding = []byte("0"), []byte("1")

// introduce fills in a CONNECT what the client tells of itself.
func (o *Client) introduce(c *packet.Connect, as login) {
	c.Peer = o.Identity
	if as.keep {
		c.SessionExpiry, c.HasSessionExpiry = cmp.Or(o.Expiry, keepFor), true
	}
	if as.tells && o.State != "" {
		c.Will = &packet.Will{Topic: o.State, Payload: stateLost, Retain: true}
	}
}

// state makes a PUBLISH to Client.State.
func (o *Client) state(dst []byte, version byte, payload []byte) []byte {
	if o.State == "" {
		return dst
	}
	return packet.AppendPublish(dst, version, &packet.Outgoing{Topic: o.State, Payload: payload, Retain: true})
}
