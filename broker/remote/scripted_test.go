package remote

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	mqttpacket "signalbox/broker/mqtt/mqtttest/packet"
)

// scripted is a broker with behaviour that a test defines, for what no available broker
// does: features of other brokers, particular refusals, and violations.
type scripted struct {
	connack byte
	refuse  []string // topics whose subscription is refused

	// answers returns the message for the response topic of a command's topic; "" is
	// none. CORRELATION in it is replaced by the correlation data.
	answers func(topic, command string) string

	// retains is sent after a subscription to a topic that is not one of the broker's
	// own.
	retains []*packets.PublishPacket

	// slow makes messages retained only when the next packet arrives on their
	// connection, like a slow broker.
	slow bool
	mu   sync.Mutex // protects retains, cleared and showsOn

	// showsOn is how many subscriptions still receive what was cleared, as from a
	// broker that clears after it has acknowledged.
	showsOn int
	cleared bool

	// drops drops PINGRESPs after retained messages, as a Mosquitto with a full queue
	// does.
	drops bool

	// endsOn reports whether the broker closes the connection on a message to a topic,
	// or a subscription to it; nil never does.
	endsOn    func(topic string) bool
	connected atomic.Int64 // accepted connections

	pings atomic.Int64 // received

	// published are the raw properties of messages that are published to a as soon as a
	// client of MQTT 5 subscribes. Without them the broker speaks MQTT 3.1.1 only.
	published [][]byte
	closes    bool         // refuses MQTT 5 by closing the connection
	refused   atomic.Int64 // connections of MQTT 5

	// respond, if set, returns the whole response to a request; nil leaves it to
	// answers.
	respond func(topic string, payload []byte) []byte
}

// serve starts the broker and returns a target for it.
func (s *scripted) serve(t testing.TB) broker.Target {
	t.Helper()
	return s.serveAt(t, "127.0.0.1:0")
}

func (s *scripted) serveAt(t testing.TB, addr string) broker.Target {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.attend(conn) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait() // the connections end with the clients, which were closed before
	})
	return broker.Target{ID: "scripted", URL: "mqtt://" + ln.Addr().String(), TopicTree: true}
}

func (s *scripted) attend(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if p, err := in.Peek(9); err == nil && p[8] == mqttpacket.V5 {
		s.attend5(conn, in)
		return
	}
	var held *packets.PublishPacket
	full := false
	for {
		p, err := packets.ReadPacket(in)
		s.keep(held)
		if held, _ = p.(*packets.PublishPacket); !s.slow {
			held = nil
		}
		if _, ended := p.(*packets.DisconnectPacket); ended {
			return
		}
		if err != nil || s.endsOn != nil && slices.ContainsFunc(namedIn(p), s.endsOn) {
			return
		}
		full = full || s.drops && slices.ContainsFunc(namedIn(p), func(topic string) bool { return !strings.HasPrefix(topic, "$") })
		for _, reply := range s.replies(p) {
			if _, pong := reply.(*packets.PingrespPacket); pong && full {
				continue
			}
			if reply.Write(conn) != nil {
				return
			}
		}
	}
}

// attend5 serves a client of MQTT 5, or refuses it.
func (s *scripted) attend5(conn net.Conn, in io.Reader) {
	if s.published == nil {
		if s.refused.Add(1); !s.closes {
			conn.Write([]byte{mqttpacket.Connack, 2, 0, mqttpacket.UnsupportedVersion3})
		}
		return
	}
	r := mqttpacket.NewReader(in, 1<<10)
	for {
		first, body, err := r.Next()
		if err != nil {
			return
		}
		switch first {
		case mqttpacket.Connect:
			conn.Write([]byte{mqttpacket.Connack, 3, 0, 0, 0})
		case mqttpacket.Disconnect:
			return
		case mqttpacket.Pingreq:
			conn.Write([]byte{mqttpacket.Pingresp, 0})
		case mqttpacket.Subscribe:
			conn.Write(s.suback5(body))
			for _, raw := range s.published {
				properties := append(binary.AppendUvarint(nil, uint64(len(raw))), raw...)
				conn.Write(mqttpacket.AppendPublish(nil, mqttpacket.Message{Topic: []byte("a"), Payload: append(properties, "x"...)}))
			}
		}
	}
}

// suback5 returns the SUBACK for the body of a SUBSCRIBE without properties.
func (s *scripted) suback5(body []byte) []byte {
	var codes []byte
	for rest := body[3:]; len(rest) > 0; {
		end := 2 + int(binary.BigEndian.Uint16(rest))
		code := byte(0)
		if slices.Contains(s.refuse, string(rest[2:end])) {
			code = mqttpacket.NotAuthorized
		}
		codes, rest = append(codes, code), rest[end+1:]
	}
	return slices.Concat([]byte{mqttpacket.Suback, byte(3 + len(codes)), body[0], body[1], 0}, codes)
}

// keep retains a message.
func (s *scripted) keep(m *packets.PublishPacket) {
	if m == nil || !m.Retain {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retains = append(s.retains, m)
}

// namedIn returns the topics in a PUBLISH or SUBSCRIBE.
func namedIn(p packets.ControlPacket) []string {
	switch p := p.(type) {
	case *packets.PublishPacket:
		return []string{p.TopicName}
	case *packets.SubscribePacket:
		return p.Topics
	}
	return nil
}

func (s *scripted) replies(p packets.ControlPacket) []packets.ControlPacket {
	switch p := p.(type) {
	case *packets.ConnectPacket:
		s.connected.Add(1)
		ack := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
		ack.ReturnCode = s.connack
		return []packets.ControlPacket{ack}
	case *packets.SubscribePacket:
		replies := []packets.ControlPacket{s.suback(p)}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cleared && !strings.HasPrefix(p.Topics[0], "$") {
			if s.showsOn--; s.showsOn < 0 {
				s.retains = nil
			}
		}
		for _, m := range s.retains {
			if !strings.HasPrefix(p.Topics[0], "$") {
				replies = append(replies, m)
			}
		}
		return replies
	case *packets.PublishPacket:
		if p.Retain && len(p.Payload) == 0 {
			s.mu.Lock()
			s.cleared = true
			s.mu.Unlock()
		}
		if p.Qos == 0 {
			return s.answer(p)
		}
		ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
		ack.MessageID = p.MessageID
		return append([]packets.ControlPacket{ack}, s.answer(p)...)
	case *packets.PingreqPacket:
		s.pings.Add(1)
		return []packets.ControlPacket{packets.NewControlPacket(packets.Pingresp)}
	}
	return nil
}

func (s *scripted) suback(p *packets.SubscribePacket) packets.ControlPacket {
	ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	ack.MessageID = p.MessageID
	for _, topic := range p.Topics {
		code := byte(0)
		for _, refused := range s.refuse {
			if topic == refused {
				code = refusedSubscription
			}
		}
		ack.ReturnCodes = append(ack.ReturnCodes, code)
	}
	return ack
}

func (s *scripted) answer(p *packets.PublishPacket) []packets.ControlPacket {
	payload := s.payload(p)
	if payload == nil {
		return nil
	}
	pub := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	pub.TopicName = p.TopicName + control.ResponseSuffix
	pub.Payload = payload
	return []packets.ControlPacket{pub}
}

// payload returns the response to a request, nil for none.
func (s *scripted) payload(p *packets.PublishPacket) []byte {
	if s.respond != nil {
		if payload := s.respond(p.TopicName, p.Payload); payload != nil {
			return payload
		}
	}
	var m struct {
		Commands []struct {
			Name            string `json:"command"`
			CorrelationData string
		}
	}
	if json.Unmarshal(p.Payload, &m) != nil || len(m.Commands) != 1 || s.answers == nil {
		return nil
	}
	text := s.answers(p.TopicName, m.Commands[0].Name)
	if text == "" {
		return nil
	}
	return []byte(strings.ReplaceAll(text, "CORRELATION", m.Commands[0].CorrelationData))
}

// message returns a message that matches a subscription.
func message(topic string, retain bool) *packets.PublishPacket {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload, p.Retain = topic, []byte("x"), retain
	return p
}

// endpointNotAvailable is the response of Mosquitto 2.1 on unknown control topics.
const endpointNotAvailable = `{"error": "endpoint not available"}`

// data returns a successful response with the data.
func data(command, data string) string {
	return fmt.Sprintf(`{"responses":[{"command":%q,"data":%s,"correlationData":"CORRELATION"}]}`, command, data)
}

// refusal returns a response with an error.
func refusal(command, why string) string {
	return fmt.Sprintf(`{"responses":[{"command":%q,"error":%q,"correlationData":"CORRELATION"}]}`, command, why)
}

// anyDefaults is the response to the probe of dynamic security.
var anyDefaults = data("getDefaultACLAccess", `{"acls":[]}`)

// onlyDynsec responds to that only.
func onlyDynsec(topic, _ string) string {
	if topic == dynsec.Topic {
		return anyDefaults
	}
	return ""
}
