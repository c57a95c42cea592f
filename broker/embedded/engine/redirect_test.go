package engine_test

import (
	"strings"
	"testing"

	"signalbox/broker/embedded/engine"
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

// TestDivert refuses new clients and refers them to other servers, disconnects those that are
// connected, and accepts all afterwards.
func TestDivert(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	c := b.Connect(enginetest.Persistent("connected"))
	const reference = "broker-1.example.org:1883"
	b.Refer(reference)
	b.Divert(func(engine.Rights) bool { return false })
	small := enginetest.Persistent("small")
	small.MaximumPacketSize = 20
	for want, h := range map[string]packet.Connect{reference: enginetest.Persistent("large"), "": small} {
		h.Version = packet.V5
		refused := b.Dial()
		refused.Send(packet.AppendConnect(nil, &h))
		if p := refused.Want(packet.TypeConnack); p[3] != packet.ReasonUseAnotherServer || len(p) > 5 != (want != "") || !strings.HasSuffix(string(p), want) {
			t.Errorf("CONNACK % x, want server reference %q", p, want)
		}
	}
	b.Redirect(t.Context())
	c.Want(packet.TypeDisconnect)
	if n := b.Divertible(); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
	b.Divert(nil)
	if !b.Connect(enginetest.Persistent("connected")).Present {
		t.Error("the session does not exist")
	}
}
