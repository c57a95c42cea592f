package embedded

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// TopClients returns the sessions with the highest figures. Simultaneous calls for the same
// figure share one pass over the sessions.
func (b *Broker) TopClients(ctx context.Context, by broker.ClientFigure, count int) (broker.TopClients, error) {
	top, err := b.rankings.Do(ctx, string(by), b.log, func(ctx context.Context) (broker.TopClients, error) { return b.rank(ctx, by) })
	if err != nil {
		return broker.TopClients{}, &broker.Error{Kind: broker.Unavailable, Op: "topClients", Msg: "the sessions could not be compared; try again", Err: err}
	}
	top.Clients = top.Clients[:min(count, len(top.Clients))]
	return top, nil
}

// figureOf are the engine's figures; the rate is measured instead.
var figureOf = map[broker.ClientFigure]engine.Figure{
	broker.ByQueue: engine.FigureQueue, broker.ByDropped: engine.FigureDropped,
	broker.ByInflight: engine.FigureInflight, broker.BySubscriptions: engine.FigureSubscriptions,
}

// rank compares all sessions.
func (b *Broker) rank(ctx context.Context, by broker.ClientFigure) (broker.TopClients, error) {
	var total int
	var ranked []engine.Ranked
	if by == broker.ByRate {
		var err error
		if total, ranked, err = b.engine.TopByRate(ctx, broker.MaxTopClients, broker.RateSpan); err != nil {
			return broker.TopClients{}, err
		}
	} else {
		total, ranked = b.engine.Top(figureOf[by], broker.MaxTopClients)
	}
	top := broker.TopClients{By: by, Sessions: total, Examined: total, Clients: []broker.TopClient{}}
	for i := range ranked {
		c := b.topClient(&ranked[i].Info)
		if by == broker.ByRate {
			c.Rate = &ranked[i].Figure
		}
		top.Clients = append(top.Clients, c)
	}
	return top, nil
}

func (b *Broker) topClient(i *engine.Info) broker.TopClient {
	c := b.clientOf(i)
	return broker.TopClient{
		ClientID: c.ClientID, Username: c.Username, Address: c.Address, Connected: c.Connected,
		Queue: c.Queues.MessagesOut, QueueBytes: c.Queues.BytesOut, Dropped: c.NumDropped,
		Inflight: new(i.Queue.Inflight + i.Queue.Incoming), Subscriptions: c.NumSubscriptions,
	}
}
