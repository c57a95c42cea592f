package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"signalbox/scripts/suite"
)

// scriptedClient is one client of a run on one broker. It follows the standard (unless muted, it
// acknowledges everything) and checks that the broker does: violations that are visible
// without comparison are recorded as breaches.
type scriptedClient struct {
	name    string
	addr    string
	prefix  string // of every topic and filter
	version byte
	window  int // its Receive Maximum, 0 for none

	conn net.Conn // nil while not connected
	r    *bufio.Reader
	mute stepKind // stepMute or stepHalf while it withholds acknowledgements, else stepConnect

	ids      uint16
	sent     map[uint16]byte            // packets sent, with the type of the response it waits for
	aliased  string                     // the topic of its alias 1
	aliases  bool                       // the broker accepts aliases
	inflight map[uint16]inflightMessage // deliveries that are not complete
	order    []uint16                   // the identifiers of inflight in the order of their first sending
	pending  []uint16                   // to be repeated on this connection, in order
	willed   bool                       // it has left a Will
	kept     bool                       // the session outlasts the connection
	blind    bool                       // the previous connection ended while it was mute: what it never received may have DUP
	prompted string                     // the last message on its cue
	heard    []delivery                 // received in this step, and compared
	later    []delivery                 // received while mute; compared if the session is resumed
	answers  []string                   // other packets received in this step, and compared
	breaches []string
}

// inflightMessage is an in-flight QoS 1 or 2 message.
type inflightMessage struct {
	delivery       delivery
	released       bool // PUBREC was sent
	pubrelReceived bool // PUBREL was received
}

// delivery is a PUBLISH as received.
type delivery struct {
	topic, payload string
	qos            byte
	retain, dup    bool
	props          string
	ids            []int // subscription identifiers
}

func (p *scriptedClient) breach(format string, args ...any) {
	p.breaches = append(p.breaches, p.name+": "+fmt.Sprintf(format, args...))
}

func (p *scriptedClient) connected() bool { return p.conn != nil }

// enter connects. The broker's session present flag decides what must be repeated.
func (p *scriptedClient) enter(s step) {
	conn, err := net.DialTimeout("tcp", p.addr, suite.HangLimit)
	if err != nil {
		p.breach("connect: %v", err)
		return
	}
	old := p.conn
	oldReader := p.r
	p.conn, p.r = conn, bufio.NewReader(conn)
	p.blind = p.mute != stepConnect
	p.version, p.window, p.mute, p.willed = s.version, 0, stepConnect, s.will != nil
	p.sent, p.aliased = map[uint16]byte{}, ""
	if s.version == v5 {
		p.window = int(s.window)
	}
	p.write(p.connectPacket(s).bytes())
	got, err := p.read()
	if err != nil || got.kind() != typeConnack || got.malformed != nil {
		p.breach("CONNECT is answered by %v, %v", got, err)
		p.gone()
		return
	}
	p.aliases = got.number(topicAliasMaximum, 0) > 0
	p.answers = append(p.answers, fmt.Sprintf("CONNACK present=%t code=%#02x", got.present, got.reason()))
	p.resume(got.present || p.version == v31 && !s.clean && p.kept)
	p.kept = p.version < v5 && !s.clean || p.version == v5 && s.expiry > 0
	if old != nil {
		p.drain(old, oldReader)
	}
	p.write(subscribe(p.version, p.expectAnswer(typeCue), nil, filter{p.cue(), 1}))
}

// typeCue is the type of the response to the SUBSCRIBE that a client sends for itself. It
// is no type of MQTT, to distinguish it from those of the script.
const typeCue byte = 1

// cue returns a topic of the client's own, which no filter of the script matches.
func (p *scriptedClient) cue() string { return p.name + "-cue" }

// attentive reports whether the client receives what is published to its cue.
func (p *scriptedClient) attentive() bool { return p.connected() && p.mute == stepConnect }

// await handles packets until the prompt arrives.
func (p *scriptedClient) await(prompt string) {
	for p.conn != nil && p.prompted != prompt {
		got, err := p.read()
		if err != nil {
			p.breach("waiting for %q: %v", prompt, err)
			p.gone()
			return
		}
		p.take(got)
	}
}

// resume keeps, or discards, what was in flight.
func (p *scriptedClient) resume(present bool) {
	p.pending = nil
	if present {
		p.heard, p.pending = append(p.heard, p.later...), slices.Clone(p.order)
	} else {
		p.inflight, p.order = map[uint16]inflightMessage{}, nil
	}
	p.later = nil
}

// record records a delivery. To a client that is mute, brokers may send a message as one
// copy, which is queued, or as many, of which some are not; so it is compared when the
// client has reconnected, and at QoS 0 not at all.
func (p *scriptedClient) record(d delivery) {
	switch {
	case p.mute == stepConnect:
		p.heard = append(p.heard, d)
	case d.qos > 0:
		p.later = append(p.later, d)
	}
}

// connectPacket returns the CONNECT of a step.
func (p *scriptedClient) connectPacket(s step) connect {
	c := connect{version: s.version, clientID: p.name, keep: !s.clean}
	if s.will != nil {
		c.will = &will{topic: p.prefix + s.will.topic, payload: s.will.payload, qos: s.will.qos, retain: s.will.retain}
		if s.version == v5 && s.will.props {
			c.will.props = scriptedProps
		}
	}
	if s.version == v5 {
		c.props = propU32(sessionExpiry, s.expiry)
		if s.window > 0 {
			c.props = cat(c.props, propU16(receiveMaximum, s.window))
		}
	}
	return c
}

var scriptedProps = cat(propByte(payloadFormat, 1), propText(contentType, "t"), user("b", "1"), user("a", "2"))

// drain reads the connection that was taken over to its end.
func (p *scriptedClient) drain(conn net.Conn, r *bufio.Reader) {
	defer conn.Close()
	_, err := io.Copy(io.Discard, r)
	var e net.Error
	if errors.As(err, &e) && e.Timeout() {
		p.breach("the connection that was taken over stays open")
	}
}

func (p *scriptedClient) gone() {
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn, p.r = nil, nil
}

func (p *scriptedClient) write(b []byte) {
	if p.conn == nil {
		return
	}
	p.conn.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // visible when used
	if _, err := p.conn.Write(b); err != nil {
		p.breach("write: %v", err)
	}
}

func (p *scriptedClient) read() (packet, error) {
	p.conn.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // visible when used
	raw, err := readPacket(p.r)
	if err != nil {
		return packet{}, err
	}
	return parse(p.version, raw), nil
}

// leave sends DISCONNECT and waits for the end.
func (p *scriptedClient) leave(reason byte) {
	p.write(disconnect(p.version, reason, nil))
	p.drain(p.conn, p.r)
	p.gone()
}

// subscribe sends one packet, and records the response; unsubscribe does the same.
func (p *scriptedClient) subscribe(s step) {
	var filters []filter
	for _, f := range s.filters {
		o := f.qos
		if p.version == v5 {
			o |= f.opts
		}
		filters = append(filters, filter{p.filter(f), o})
	}
	var props []byte
	if s.subID > 0 {
		props = propVarint(subscriptionIdentifier, int(s.subID))
	}
	p.write(subscribe(p.version, p.expectAnswer(typeSuback), props, filters...))
}

func (p *scriptedClient) unsubscribe(s step) {
	var names []string
	for _, f := range s.filters {
		names = append(names, p.filter(f))
	}
	p.write(unsubscribe(p.version, p.expectAnswer(typeUnsuback), nil, names...))
}

func (p *scriptedClient) filter(f scriptedFilter) string {
	if f.share != "" {
		return "$share/" + f.share + "/" + p.prefix + f.filter
	}
	return p.prefix + f.filter
}

// expectAnswer returns a packet identifier whose response must have the type.
func (p *scriptedClient) expectAnswer(kind byte) uint16 {
	p.ids++
	p.sent[p.ids] = kind
	return p.ids
}

// publish sends all messages of the step in one write.
func (p *scriptedClient) publish(s step) {
	var all []byte
	for _, m := range s.messages {
		all = append(all, p.message(m).bytes(p.version)...)
	}
	p.write(all)
}

func (p *scriptedClient) message(m scriptedMessage) publish {
	out := publish{topic: p.prefix + m.topic, payload: m.payload, qos: m.qos, retain: m.retain}
	if m.qos > 0 {
		out.id = p.expectAnswer([]byte{0, typePuback, typePubrec}[m.qos])
	}
	if p.version < v5 {
		return out
	}
	if m.props {
		out.props = scriptedProps
	}
	if m.expiry > 0 {
		out.props = cat(out.props, propU32(messageExpiry, m.expiry))
	}
	if m.alias && p.aliases {
		out.props = cat(out.props, propU16(topicAlias, 1))
		if p.aliased == out.topic {
			out.topic = ""
		} else {
			p.aliased = out.topic
		}
	}
	return out
}

// settle handles packets until the broker has responded to everything and to a final
// PINGREQ.
func (p *scriptedClient) settle() {
	p.write(pingreq())
	pong := false
	for p.conn != nil && (!pong || len(p.sent) > 0 || p.expectsPubrel()) {
		got, err := p.read()
		if err != nil {
			p.breach("waiting for %d answers and PINGRESP (%t): %v", len(p.sent), pong, err)
			p.gone()
			return
		}
		if got.kind() == typePingresp {
			pong = true
			continue
		}
		p.take(got)
	}
}

// expectsPubrel reports whether a PUBREL must arrive.
func (p *scriptedClient) expectsPubrel() bool {
	for id, f := range p.inflight {
		if f.released && (!f.pubrelReceived || slices.Contains(p.pending, id)) {
			return true
		}
	}
	return false
}

// take handles one packet.
func (p *scriptedClient) take(got packet) {
	switch kind := got.kind(); {
	case got.malformed != nil:
		p.breach("got %v", got)
	case kind == typePublish:
		p.takePublish(got)
	case kind == typePubrel:
		p.takePubrel(got)
	case kind == typeDisconnect:
		p.breach("got %v", got)
		p.gone()
	default:
		p.takeAnswer(got)
	}
}

func (p *scriptedClient) takeAnswer(got packet) {
	want, ok := p.sent[got.id]
	if want == typeCue && got.kind() == typeSuback {
		delete(p.sent, got.id)
		return
	}
	if !ok || want != got.kind() {
		p.breach("got %v, which answers nothing", got)
		return
	}
	delete(p.sent, got.id)
	if got.kind() == typeSuback || got.kind() == typeUnsuback || got.reason() != success {
		p.answers = append(p.answers, fmt.Sprintf("%s % x", typeNames[got.first>>4], got.codes))
	}
	if got.kind() == typePubrec && got.reason() < 0x80 {
		p.sent[got.id] = typePubcomp
		p.write(ack(p.version, typePubrel, got.id, success))
	}
}
