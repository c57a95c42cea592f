package hosted

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// streams are streams of this service on a broker.
type streams struct {
	messaging.StreamEngine
	features *Features
}

// CreateStream creates a stream. If there is a connection, it waits for the subscription.
func (o *streams) CreateStream(ctx context.Context, s broker.StreamSpec) error {
	err := o.StreamEngine.CreateStream(ctx, s)
	o.features.WaitSubscribed(ctx, o)
	return err
}

// ModifyStream changes a stream; see CreateStream.
func (o *streams) ModifyStream(ctx context.Context, s broker.StreamSpec, replace bool) error {
	err := o.StreamEngine.ModifyStream(ctx, s, replace)
	o.features.WaitSubscribed(ctx, o)
	return err
}

// ReplayStream starts a replay when the connection for it exists.
func (o *streams) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	o.features.WaitSubscribed(ctx, o)
	return o.StreamEngine.ReplayStream(ctx, r)
}
