package flood

import "bytes"

// badFirst are first packets that are not a valid CONNECT.
var badFirst = [][]byte{
	{0xc0, 0x00},                           // PINGREQ
	{0x00, 0x00},                           // the reserved type
	{0xf0, 0x00},                           // AUTH
	{0x10, 0x00},                           // an empty CONNECT
	{0x11, 0x00},                           // with a flag
	{0x10, 0xff, 0xff, 0xff, 0xff, 0x01},   // a length of five bytes
	{0x10, 0xff, 0xff, 0xff, 0x7f},         // 256 MiB
	{0x10, 0x02, 0x00, 0x04},               // a name that is missing
	{0x10, 0x06, 0, 4, 'M', 'Q', 'T', 'T'}, // nothing but a name
	{0x10, 0x0a, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0},                                  // no client id
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'X', 4, 2, 0, 0, 0, 0},                            // another protocol
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'T', 4, 3, 0, 0, 0, 0},                            // the reserved flag
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x1e, 0, 0, 0, 0},                         // a Will of QoS 3
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'T', 4, 0x42, 0, 0, 0, 0},                         // a password without username
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0xff, 0xff},                      // a client id that is missing
	{0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 1, 0x00},                      // NUL in the client id
	{0x10, 0x0e, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 2, 0xc0, 0x80},                // no UTF-8
	{0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0x7f, 0, 0},                      // properties that are missing
	{0x10, 0x0e, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 0x01, 0x7e, 0, 0},                // an unknown property
	{0x10, 0x12, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 0, 5, 0x11, 0, 0, 0, 0, 0x11, 0, 0}, // a property cut short
	{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03},                  // TLS
	[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
	[]byte("SSH-2.0-OpenSSH_9.6\r\n"),
}

// badLater are packets that end the connection of a client that has logged in
// with MQTT 3.1.1.
var badLater = [][]byte{
	{0x10, 0x0c, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 0}, // a second CONNECT
	{0x20, 0x02, 0, 0},                   // CONNACK
	{0x90, 0x03, 0, 1, 0},                // SUBACK
	{0xd0, 0x00},                         // PINGRESP
	{0x00, 0x00},                         // the reserved type
	{0xf0, 0x00},                         // AUTH
	{0xc0, 0x01, 0x00},                   // PINGREQ with a body
	{0x36, 0x06, 0, 1, 'a', 0, 1, 'x'},   // QoS 3
	{0x38, 0x04, 0, 1, 'a', 'x'},         // DUP at QoS 0
	{0x30, 0x00},                         // PUBLISH without topic
	{0x30, 0x03, 0, 0xff, 'a'},           // a topic that is missing
	{0x30, 0x02, 0, 0},                   // an empty topic
	{0x30, 0x03, 0, 1, '#'},              // wildcards in a topic
	{0x30, 0x03, 0, 1, 0},                // NUL in a topic
	{0x30, 0x05, 0, 3, 0xed, 0xa0, 0x80}, // a surrogate
	{0x32, 0x05, 0, 1, 'a', 0, 0},        // packet identifier 0
	{0x32, 0x03, 0, 1, 'a'},              // none
	{0x40, 0x00},                         // PUBACK without packet identifier
	{0x40, 0x04, 0, 1, 0, 0},             // one with more
	{0x60, 0x02, 0, 1},                   // PUBREL without its flag
	{0x80, 0x06, 0, 1, 0, 1, 'a', 0},     // SUBSCRIBE without its flag
	{0x82, 0x02, 0, 1},                   // nothing to subscribe to
	{0x82, 0x05, 0, 1, 0, 0, 0},          // an empty filter
	{0x82, 0x06, 0, 0, 0, 1, 'a', 0},     // packet identifier 0
	{0x82, 0x06, 0, 1, 0, 1, 'a', 3},     // QoS 3
	{0x82, 0x06, 0, 1, 0, 1, 'a', 4},     // options of MQTT 5
	{0x82, 0x05, 0, 1, 0, 1, 'a'},        // no options
	{0xa2, 0x02, 0, 1},                   // nothing to unsubscribe from
	{0xe0, 0x01, 0},                      // DISCONNECT with a body
	{0x30, 0xff, 0xff, 0xff, 0xff, 0x01}, // a length of five bytes
	append([]byte{0x30, 0xff, 0xff, 0x7f}, bytes.Repeat([]byte{'x'}, 512)...), // more than the broker takes
}

// badFrames end a WebSocket.
var badFrames = [][]byte{
	{0x82, 0x02, 0xc0, 0x00},             // no mask
	{0x81, 0x82, 0, 0, 0, 0, 'h', 'i'},   // text
	{0xf2, 0x82, 0, 0, 0, 0, 0xc0, 0x00}, // reserved bits
	{0x83, 0x80, 0, 0, 0, 0},             // an unknown opcode
	{0x80, 0x80, 0, 0, 0, 0},             // a continuation of nothing
	{0x89, 0xfe, 0x01, 0x00, 0, 0, 0, 0}, // a long ping
	{0x09, 0x80, 0, 0, 0, 0},             // a ping in parts
	{0x88, 0x81, 0, 0, 0, 0, 0x03},       // half a close code
	{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},          // a length of 64 bits
	{0x82, 0xff, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xff, 0xff, 0xff, 0x7f}, // a frame without end
}
