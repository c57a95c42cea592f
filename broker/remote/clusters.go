package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

// AskHA sends a command about clusters once and decodes the response into data, which may be
// nil. The error is a [*broker.Error], see [control.ReadHA].
func (b *Broker) AskHA(ctx context.Context, c control.HACommand, data any) error {
	payload, correlation, err := b.do(ctx, request{op: c.Name(), topic: control.HATopic, feature: broker.CapCluster, encode: c.Encode, takesLong: c.Enters()})
	if err != nil {
		return err
	}
	return b.figures.countResponse(control.ReadHA(c, payload, correlation, data))
}
