package embedded

import (
	"errors"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// A request that cannot be recorded is not executed; one that only reads is.
func TestControlThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *Config) {
		c.ControlAudit = func(broker.ControlRequest) (func([]broker.ControlOutcome), error) {
			return nil, errors.New("disk full")
		}
	})
	d := admin(t, b, 5)
	for _, c := range []struct{ give, want string }{
		{`{"command":"createRole","rolename":"r","correlationData":"7"}`, `{"responses":[{"command":"createRole","error":"Audit log cannot be written","correlationData":"7"}]}`},
		{`{"command":"getRole","rolename":"r"}`, `{"responses":[{"command":"getRole","error":"Role not found"}]}`},
	} {
		d.command(c.give)
		if got := string(d.Want(packet.Publish).Payload); got != c.want {
			t.Errorf("%s: got %s", c.give, got)
		}
	}
}
