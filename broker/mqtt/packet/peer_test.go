package packet

import (
	"bytes"
	"testing"
)

// TestPeer encodes a bridge's name in CONNECT and CONNACK of MQTT 5, and in no older version.
func TestPeer(t *testing.T) {
	t.Parallel()
	for version, want := range map[byte]string{V5: "box-1", V311: ""} {
		c, err := DecodeConnect(AppendConnect(nil, &Connect{Version: version, CleanStart: true, ClientID: "c", ReceiveMaximum: 65535, Peer: "box-1"}))
		if err != nil || c.Peer != want {
			t.Errorf("MQTT %d: got %+v, %v; want %q", version, c, err, want)
		}
		told := bytes.Contains(AppendConnack(nil, version, &Connack{Peer: "box-1"}), []byte(BridgeProperty+"\x00\x05box-1"))
		if told != (want != "") {
			t.Errorf("MQTT %d: CONNACK tells the name: %v", version, told)
		}
	}
}
