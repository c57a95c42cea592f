package flood

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// The configuration of the broker, from which the bounds of the test follow.
const (
	maxPerAddress  = 120
	maxHalfOpen    = 100
	maxPacket      = 64 << 10
	maxQueuedBytes = 256 << 10
	maxLevels      = 32
	maxFilters     = 200
	retainedTopics = 20_000 // that the attack publishes, at most
	limits         = `
  max_connections: 100000
  listeners: [{protocol: ws, address: 127.0.0.1:0}]
  max_packet_size: 65536
  connect_timeout: 2s
  write_timeout: 2s
  max_queued_messages: 1000
  max_queued_bytes: 262144
  max_topic_levels: 32
  max_subscriptions: 200
  max_session_expiry: 2s
  limits:
    exempt: []
    max_connections_per_address: 120
    max_half_open: 100
    max_half_open_per_address: 40
    connect_rate_per_address: 2000
    max_failed_logins: 100000
`
)

// maxConnect is the length of the largest CONNECT that the broker accepts, in bytes.
const maxConnect = 320 << 10

// attackGroups returns all groups. The scale multiplies the cheap ones.
func attackGroups(scale int) []*attackGroup {
	return append(append(unauthenticated(scale), authenticated(scale)...), compliant(scale)...)
}

// unauthenticated returns the groups that never log in.
func unauthenticated(scale int) []*attackGroup {
	return []*attackGroup{
		{name: "silent", clients: 40 * scale, connection: over(tcpClient, sendText(""))},
		{name: "slow CONNECT", clients: 20 * scale, connection: over(tcpClient, sendSlowly(connectOf))},
		{name: "large CONNECT, incomplete", clients: 30 * scale, connection: over(tcpClient, sendOnce(incomplete(packet.Connect, maxConnect)))},
		{name: "malformed first packet", clients: 10, connection: over(tcpClient, sendOneOf(badFirst))},
		{name: "wrong password", clients: 20, connection: over(tcpClient, wrongPassword)},
		{name: "endless noise", clients: 4, connection: over(tcpClient, sendEndlessly(bytes.Repeat([]byte{0x5a}, 4096)))},
		{name: "silent before the upgrade", clients: 20 * scale, connection: over(webSocketTCP, sendText(""))},
		{name: "slow upgrade", clients: 10 * scale, connection: over(webSocketTCP, sendSlowly(upgradeOf))},
		{name: "endless header", clients: 4, connection: over(webSocketTCP, sendEndlessly([]byte("X-Flood: "+strings.Repeat("x", 1024)+"\r\n")))},
		{name: "silent WebSocket", clients: 20 * scale, connection: over(webSocketClient, sendText(""))},
		{name: "malformed frame", clients: 6, connection: over(webSocketClient, oneFrame)},
	}
}

// authenticated returns the groups that log in and violate the protocol.
func authenticated(scale int) []*attackGroup {
	in, ws := loggedIn(tcpClient), loggedIn(webSocketClient)
	return []*attackGroup{
		{name: "malformed packet", clients: 10, connection: over(in, sendOneOf(badLater))},
		{name: "giant PUBLISH", clients: 4, connection: over(in, sendOnce(incomplete(packet.Publish, 256<<20-1)))},
		{name: "PUBLISH, incomplete", clients: 20 * scale, connection: over(in, sendOnce(incomplete(packet.Publish, maxPacket)))},
		{name: "PINGREQ, not reading", clients: 4, connection: over(in, sendEndlessly(bytes.Repeat([]byte{packet.Pingreq, 0}, 2048)))},
		{name: "SUBSCRIBE, not reading", clients: 2, connection: over(in, sendEndlessly(packet.AppendSubscribe(nil, 1, "attacker/stream/#", 1)))},
		{name: "ping frames, not reading", clients: 2, connection: over(ws, pingFrames)},
		{name: "take-overs", clients: 6, connection: over(tcpClient, takeOver)},
		{name: "too deep a topic", clients: 2, connection: over(in, sendOnce(packet.AppendPublish(nil, packet.Message{Topic: deep(maxLevels + 1)})))},
	}
}

// compliant returns the groups that comply with the protocol and exhaust their limits.
func compliant(scale int) []*attackGroup {
	in, ws := loggedIn(tcpClient), loggedIn(webSocketClient)
	return []*attackGroup{
		{name: "fast publisher", clients: 2, connection: over(in, fastPublisher(1024))},
		{name: "not reading, QoS 0", clients: 10 * scale, connection: over(in, unreading(0))},
		{name: "not reading, QoS 1", clients: 10 * scale, connection: over(in, unreading(1))},
		{name: "not reading, QoS 2, WebSocket", clients: 10 * scale, connection: over(ws, unreading(2))},
		{name: "not acknowledging, QoS 1", clients: 4, connection: over(in, unacknowledging(1))},
		{name: "not acknowledging, QoS 2", clients: 4, connection: over(in, unacknowledging(2))},
		{name: "not releasing QoS 2", clients: 4, connection: over(in, unreleased)},
		{name: "retained messages", clients: 2, connection: over(in, retainedPublisher)},
		{name: "many subscriptions", clients: 2, connection: over(in, maxSubscriber)},
		{name: "sessions", clients: 4, connection: over(tcpClient, leaveSession)},
	}
}

// connectOf returns the CONNECT of a client that may be accepted.
func connectOf(m *attackClient) []byte {
	return packet.AppendConnect(nil, withClientID(attackUser, m.name))
}

func upgradeOf(*attackClient) []byte { return []byte(upgradeRequest) }

// incomplete returns a packet of a type and a total length, without its last byte. If
// that is more than the broker accepts, only little more than that is included.
func incomplete(first byte, size int) []byte {
	const head = 5
	p := binary.AppendUvarint([]byte{first}, uint64(size-head))
	if first == packet.Connect {
		p = append(p, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0)
	}
	return append(p, make([]byte, min(size, maxConnect)-len(p)-1)...)
}

// wrongPassword tries one password after the other.
func wrongPassword(m *attackClient, l *link) error {
	as := withClientID(attackUser, m.name)
	as.Password = fmt.Sprint("guess ", m.connections)
	return sendOnce(packet.AppendConnect(nil, as))(m, l)
}

// takeOver connects with a client id that others use too.
func takeOver(m *attackClient, l *link) error {
	if err := l.logIn(withClientID(attackUser, "shared")); err != nil {
		return err
	}
	return l.drain()
}

// retainedPublisher publishes one retained message after the other.
func retainedPublisher(m *attackClient, l *link) error {
	for i := range retainedTopics / 2 {
		topic := fmt.Appendf(nil, "attacker/retained/%s/%d", m.name, i)
		p := packet.AppendPublish(nil, packet.Message{Topic: topic, Payload: []byte("x"), QoS: 1, Retain: true, ID: l.next()})
		if _, err := l.Write(p); err != nil {
			return err
		}
		if _, err := l.want(packet.Puback); err != nil {
			return err
		}
	}
	<-m.ctx.Done()
	return nil
}

// maxSubscriber subscribes to as much as it may and one more, deep and with wildcards
// at all levels, and publishes what all of it matches.
func maxSubscriber(m *attackClient, l *link) error {
	for i := range maxFilters {
		if err := l.subscribe("attacker/"+wildcards(i), 1); err != nil {
			return err
		}
	}
	if l.subscribe("attacker/one/too/many", 1) == nil {
		return fmt.Errorf("%d subscriptions", maxFilters+1)
	}
	return sendEndlessly(packet.AppendPublish(nil, packet.Message{Topic: append([]byte("attacker/"), deep(maxLevels-1)...)}))(m, l)
}

// deep returns a topic with that many levels.
func deep(levels int) []byte {
	return []byte(strings.TrimSuffix(strings.Repeat("a/", levels), "/"))
}

// wildcards returns a filter for deep topics that has + where n has a bit.
func wildcards(n int) string {
	var b strings.Builder
	for level := range maxLevels - 1 {
		b.WriteString("/" + string("a+"[n>>level&1]))
	}
	return b.String()[1:]
}

// leaveSession leaves a session behind, with a new client id over each connection.
func leaveSession(m *attackClient, l *link) error {
	if err := l.logInFive(withClientID(attackUser, fmt.Sprint(m.name, "-", m.connections)), 3600); err != nil {
		return err
	}
	_, err := l.Write([]byte{packet.Subscribe, 18, 0, 1, 0, 0, 12, 'g', 'u', 'e', 's', 't', '/', 'q', 'u', 'e', 'u', 'e', 1, 0})
	return err
}

// pingFrames sends pings and reads no pong.
func pingFrames(_ *attackClient, l *link) error {
	ws := l.Conn.(*webSocket) //nolint:forcetypeassert // it was dialled so
	ping := append([]byte{0x89, 0x80 | 125, 0, 0, 0, 0}, make([]byte, 125)...)
	for all := bytes.Repeat(ping, 16); ; {
		if _, err := ws.Conn.Write(all); err != nil {
			return err
		}
	}
}

// oneFrame sends one of the bad frames.
func oneFrame(m *attackClient, l *link) error {
	ws := l.Conn.(*webSocket) //nolint:forcetypeassert // it was dialled so
	return sendOneOf(badFrames)(m, newLink(ws.Conn))
}
