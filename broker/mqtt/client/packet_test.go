package client

import (
	"bytes"
	"slices"
	"testing"

	wire "signalbox/broker/mqtt/packet"
)

// body removes the fixed header of a packet of fewer than 128 bytes.
func body(p []byte) []byte { return p[2:] }

func TestDecodeConnack(t *testing.T) {
	t.Parallel()
	p := wire.AppendConnack(nil, wire.V5, &wire.Connack{SessionPresent: true, ServerKeepAlive: 9, HasServerKeepAlive: true, MaximumPacketSize: 1000,
		ReceiveMaximum: 20, MaximumQoS: 1, HasMaximumQoS: true, SubIDsUnavailable: true, ReasonString: "x", AssignedClientID: "y"})
	got, err := decodeConnack(body(p), wire.V5)
	if want := (connack{sessionPresent: true, window: 20, maxQoS: 1, maxPacket: 1000, keepAlive: 9}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	got, err = decodeConnack([]byte{0, 5}, wire.V311)
	if want := (connack{code: 5, window: v311Window, maxQoS: 2}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err = decodeConnack([]byte{0, 1}, wire.V5); err != nil || got.code != 1 {
		t.Errorf("a refusal of an older broker: %+v, %v", got, err)
	}
}

func TestDecodePublish(t *testing.T) {
	t.Parallel()
	properties := []byte("\x01\x01\x26\x00\x01k\x00\x01v\x26\x00\x01k\x00\x01w\x09\x00\x02\xff\x00")
	p := wire.AppendPublish(nil, wire.V5, &wire.Outgoing{Topic: "a/b", Payload: []byte("\x00p"), Properties: properties, QoS: 2, Dup: true, Retain: true,
		PacketID: 7, Expiry: 60, HasExpiry: true, SubscriptionIDs: []uint32{5, 1 << 27}})
	var got incoming
	if err := got.decode(p[0], body(p), wire.V5); err != nil {
		t.Fatal(err)
	}
	if string(got.topic) != "a/b" || string(got.payload) != "\x00p" || got.qos != 2 || !got.dup || !got.retain || got.id != 7 || got.expiry != 60 {
		t.Errorf("got %+v", got)
	}
	if !bytes.Equal(got.properties, properties) || !slices.Equal(got.subscriptionIDs, []uint32{5, 1 << 27}) {
		t.Errorf("properties % x, by %v", got.properties, got.subscriptionIDs)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]string{
		"no topic":            "\x30\x03\x00\x00\x00",
		"a wildcard":          "\x30\x04\x00\x01#\x00",
		"no UTF-8":            "\x30\x04\x00\x01\xff\x00",
		"no properties":       "\x30\x03\x00\x01a",
		"no identifier":       "\x32\x06\x00\x01a\x00\x00\x00",
		"QoS 3":               "\x36\x06\x00\x01a\x00\x01\x00",
		"an unknown property": "\x30\x06\x00\x01a\x02\x77\x00",
		"a property cut off":  "\x30\x06\x00\x01a\x02\x02\x00",
		"a long length":       "\x30\x08\x00\x01a\xff\xff\xff\xff\x01",
	} {
		var got incoming
		if err := got.decode(p[0], []byte(p[2:]), wire.V5); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzDecode decodes any packet. A decoded message survives encoding.
func FuzzDecode(f *testing.F) {
	f.Add(byte(0x34), []byte("\x00\x03a/b\x00\x07\x0b\x0b\x05\x01\x01\x26\x00\x01k\x00\x01vpayload"), true)
	f.Add(byte(0x20), []byte("\x01\x00\x06\x22\x00\x0a\x13\x00\x09"), true)
	f.Add(byte(0x90), []byte("\x00\x01\x00\x02\x87"), false)
	f.Fuzz(func(t *testing.T, first byte, packet []byte, five bool) {
		version := wire.V311
		if five {
			version = wire.V5
		}
		decodeConnack(packet, version)
		decodeCodes(packet, version)
		decodeAck(packet)
		var p, again incoming
		if p.decode(first, packet, version) != nil {
			return
		}
		if int(p.id) == 0 && p.qos > 0 || len(p.topic)+len(p.payload)+len(p.properties) > len(packet) {
			t.Fatalf("%+v of % x", p, packet)
		}
		q := wire.AppendPublish(nil, version, &wire.Outgoing{Topic: string(p.topic), Payload: p.payload, Properties: p.properties, QoS: p.qos, PacketID: p.id})
		for q[1] >= 0x80 { // the length has more than one byte
			q = q[1:]
		}
		if err := again.decode(first&0xf6|p.qos<<1, q[2:], version); err != nil || !bytes.Equal(again.payload, p.payload) || !bytes.Equal(again.properties, p.properties) {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
	})
}
