package engine_test

import (
	"strings"
	"testing"

	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// TestRedirect refers clients of MQTT 5 to other servers, those that cannot receive so large a
// packet without their names, and leaves the sessions as they are.
func TestRedirect(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	reference := strings.Repeat("broker-1.example.org:1883 ", 4)
	large, small := b.Connect(enginetest.Persistent("large")), enginetest.Persistent("small")
	small.MaximumPacketSize = 40
	limited := b.Connect(small)
	b.Refer(reference)
	b.Redirect(t.Context())
	for c, want := range map[*enginetest.Client]string{large: reference, limited: ""} {
		p := c.Want(packet.TypeDisconnect)
		if p[2] != packet.ReasonUseAnotherServer || len(p) > 3 != (want != "") || !strings.HasSuffix(string(p), want) {
			t.Errorf("DISCONNECT % x, want server reference %q", p, want)
		}
	}
	for _, id := range []string{"large", "small"} {
		if o, err := b.Ownership(id); err != nil || o.Connected {
			t.Errorf("session %s: %+v, %v", id, o, err)
		}
	}
}
