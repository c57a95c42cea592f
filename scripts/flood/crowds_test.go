package flood

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"signalbox/scripts/bench/packet"
)

// What the broker is configured with; the bounds of the test follow from it.
const (
	maxPerAddress  = 120
	maxHalfOpen    = 100
	maxPacket      = 64 << 10
	maxQueuedBytes = 256 << 10
	maxLevels      = 32
	maxFilters     = 200
	retainedTopics = 20_000 // that the flood makes, at most
	limits         = `
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

// maxConnect is the largest CONNECT that the broker takes, in bytes.
const maxConnect = 320 << 10

// crowds gives the mobs of a flood. The scale multiplies those that cost little.
func crowds(scale int) []*mob {
	return append(append(outside(scale), inside(scale)...), greedy(scale)...)
}

// outside never log in.
func outside(scale int) []*mob {
	return []*mob{
		{name: "silent", members: 40 * scale, life: over(stranger, say(""))},
		{name: "slow CONNECT", members: 20 * scale, life: over(stranger, slowly(connectOf))},
		{name: "large CONNECT, unended", members: 30 * scale, life: over(stranger, then(unended(packet.Connect, maxConnect)))},
		{name: "malformed first packet", members: 10, life: over(stranger, one(badFirst))},
		{name: "wrong password", members: 20, life: over(stranger, wrongPassword)},
		{name: "endless noise", members: 4, life: over(stranger, endless(bytes.Repeat([]byte{0x5a}, 4096)))},
		{name: "silent browser", members: 20 * scale, life: over(browser, say(""))},
		{name: "slow upgrade", members: 10 * scale, life: over(browser, slowly(upgradeOf))},
		{name: "endless header", members: 4, life: over(browser, endless([]byte("X-Flood: "+strings.Repeat("x", 1024)+"\r\n")))},
		{name: "silent caller", members: 20 * scale, life: over(caller, say(""))},
		{name: "malformed frame", members: 6, life: over(caller, oneFrame)},
	}
}

// inside log in and break the rules.
func inside(scale int) []*mob {
	in, ws := loggedIn(stranger), loggedIn(caller)
	return []*mob{
		{name: "malformed packet", members: 10, life: over(in, one(badLater))},
		{name: "giant PUBLISH", members: 4, life: over(in, then(unended(packet.Publish, 256<<20-1)))},
		{name: "PUBLISH, unended", members: 20 * scale, life: over(in, then(unended(packet.Publish, maxPacket)))},
		{name: "PINGREQ, deaf", members: 4, life: over(in, endless(bytes.Repeat([]byte{packet.Pingreq, 0}, 2048)))},
		{name: "SUBSCRIBE, deaf", members: 2, life: over(in, endless(packet.AppendSubscribe(nil, 1, "guest/stream/#", 1)))},
		{name: "ping frames, deaf", members: 2, life: over(ws, pingFrames)},
		{name: "take-over war", members: 6, life: over(stranger, warrior)},
		{name: "too deep a topic", members: 2, life: over(in, then(packet.AppendPublish(nil, packet.Message{Topic: deep(maxLevels + 1)})))},
	}
}

// greedy keep to the rules and use what they can.
func greedy(scale int) []*mob {
	in, ws := loggedIn(stranger), loggedIn(caller)
	return []*mob{
		{name: "shouter", members: 2, life: over(in, shouter(1024))},
		{name: "deaf, QoS 0", members: 10 * scale, life: over(in, deaf(0))},
		{name: "deaf, QoS 1", members: 10 * scale, life: over(in, deaf(1))},
		{name: "deaf, QoS 2, WebSocket", members: 10 * scale, life: over(ws, deaf(2))},
		{name: "ungrateful, QoS 1", members: 4, life: over(in, ungrateful(1))},
		{name: "ungrateful, QoS 2", members: 4, life: over(in, ungrateful(2))},
		{name: "hoarder", members: 4, life: over(in, hoarder)},
		{name: "retainer", members: 2, life: over(in, retainer)},
		{name: "collector", members: 2, life: over(in, collector)},
		{name: "sessions", members: 4, life: over(stranger, leaveSession)},
	}
}

// connectOf is the CONNECT of a member that might be let in.
func connectOf(m *member) []byte { return packet.AppendConnect(nil, named(guest, m.name)) }

func upgradeOf(*member) []byte { return []byte(upgradeRequest) }

// unended is a packet of a type and a length in all, without its last byte. Where
// it says more than the broker takes, that much and a bit comes.
func unended(first byte, size int) []byte {
	const head = 5
	p := binary.AppendUvarint([]byte{first}, uint64(size-head))
	if first == packet.Connect {
		p = append(p, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0)
	}
	return append(p, make([]byte, min(size, maxConnect)-len(p)-1)...)
}

// wrongPassword tries one password after the other.
func wrongPassword(m *member, l *link) error {
	as := named(guest, m.name)
	as.Password = fmt.Sprint("guess ", m.lives)
	return then(packet.AppendConnect(nil, as))(m, l)
}

// warrior fights for a client id.
func warrior(m *member, l *link) error {
	if err := l.logIn(named(guest, "throne")); err != nil {
		return err
	}
	return l.drain()
}

// retainer sets one retained message after the other.
func retainer(m *member, l *link) error {
	for i := range retainedTopics / 2 {
		topic := fmt.Appendf(nil, "guest/retained/%s/%d", m.name, i)
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

// collector subscribes to as much as it may and one more, deep and with wildcards
// at all places, and publishes what all of it matches.
func collector(m *member, l *link) error {
	for i := range maxFilters {
		if err := l.subscribe("guest/"+wildcards(i), 1); err != nil {
			return err
		}
	}
	if l.subscribe("guest/one/too/many", 1) == nil {
		return fmt.Errorf("%d subscriptions", maxFilters+1)
	}
	return endless(packet.AppendPublish(nil, packet.Message{Topic: append([]byte("guest/"), deep(maxLevels-1)...)}))(m, l)
}

// deep is a topic of that many levels.
func deep(levels int) []byte {
	return []byte(strings.TrimSuffix(strings.Repeat("a/", levels), "/"))
}

// wildcards is a filter for deep topics that has + where n has a bit.
func wildcards(n int) string {
	var b strings.Builder
	for level := range maxLevels - 1 {
		b.WriteString("/" + string("a+"[n>>level&1]))
	}
	return b.String()[1:]
}

// leaveSession leaves a session behind, with a new client id in each life.
func leaveSession(m *member, l *link) error {
	if err := l.logInFive(named(guest, fmt.Sprint(m.name, "-", m.lives)), 3600); err != nil {
		return err
	}
	_, err := l.Write([]byte{packet.Subscribe, 18, 0, 1, 0, 0, 12, 'g', 'u', 'e', 's', 't', '/', 'q', 'u', 'e', 'u', 'e', 1, 0})
	return err
}

// pingFrames asks for pongs and takes none.
func pingFrames(_ *member, l *link) error {
	ws := l.Conn.(*webSocket) //nolint:forcetypeassert // it was dialed so
	ping := append([]byte{0x89, 0x80 | 125, 0, 0, 0, 0}, make([]byte, 125)...)
	for all := bytes.Repeat(ping, 16); ; {
		if _, err := ws.Conn.Write(all); err != nil {
			return err
		}
	}
}

// oneFrame sends one of the bad frames.
func oneFrame(m *member, l *link) error {
	ws := l.Conn.(*webSocket) //nolint:forcetypeassert // it was dialed so
	return one(badFrames)(m, newLink(ws.Conn))
}
