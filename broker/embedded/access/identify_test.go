package access

import (
	"errors"
	"testing"

	"signalbox/broker"
)

func TestIdentify(t *testing.T) {
	t.Parallel()
	c, ctx := fresh(t), t.Context()
	id := "bound"
	must(t, c.CreateClient(ctx, broker.ClientSpec{Username: "free"}),
		c.CreateClient(ctx, broker.ClientSpec{Username: "bound", ClientID: &id}),
		c.CreateClient(ctx, broker.ClientSpec{Username: "off"}), c.DisableClient(ctx, "off"))
	for _, tt := range []struct {
		username, clientID string
		in                 bool
	}{
		{"free", "any", true}, {"bound", "bound", true}, {"bound", "other", false},
		{"off", "any", false}, {"nobody", "any", false}, {"", "any", false},
	} {
		a, err := c.Identify(tt.username, tt.clientID)
		if (err == nil) != tt.in || err != nil && !errors.Is(err, ErrNotAuthorized) {
			t.Errorf("%s as %s: got %v, want in: %v", tt.username, tt.clientID, err, tt.in)
		}
		if a != nil {
			a.Release()
		}
	}
}
