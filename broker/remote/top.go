package remote

import (
	"context"
	"time"

	"signalbox/broker"
	"signalbox/broker/ranking"
)

// Bounds of a ranking of clients, for which the broker's list is read.
const (
	maxRanked   = 100_000 // clients, in pages of 1000
	rankingTime = 20 * time.Second
)

// TopClients reads the list of clients and returns those with the longest queues. The list
// has no other figures, and asking for each client would take a command per client.
// Simultaneous calls share one reading.
func (b *Broker) TopClients(ctx context.Context, by broker.ClientFigure, count int) (broker.TopClients, error) {
	if by != broker.ByQueue {
		return broker.TopClients{}, &broker.Error{Kind: broker.Unsupported, Op: "topClients", Feature: broker.CapInspect,
			Msg: "clients of a broker that is reached over MQTT can be ordered by queue only: its list of clients has no figure " + string(by)}
	}
	top, err := b.rankings.Do(ctx, string(by), b.log, func(ctx context.Context) (broker.TopClients, error) {
		ctx, cancel := context.WithTimeout(ctx, rankingTime)
		defer cancel()
		return b.rankByQueue(ctx)
	})
	if err != nil && ctx.Err() != nil {
		err = &broker.Error{Kind: broker.Unavailable, Op: "topClients", Msg: "the clients could not be compared in time; try again", Err: err}
	}
	if err != nil {
		return broker.TopClients{}, err
	}
	top.Clients = top.Clients[:min(count, len(top.Clients))]
	return top, nil
}

func (b *Broker) rankByQueue(ctx context.Context) (broker.TopClients, error) {
	page, err := b.InspectClients(ctx, 0, maxRanked, false)
	if err != nil {
		return broker.TopClients{}, err
	}
	longest := ranking.New(broker.MaxTopClients, func(a, b broker.ConnectedClient) int {
		return ranking.HighestFirst(a.Queues.MessagesOut, b.Queues.MessagesOut, a.ClientID, b.ClientID)
	})
	top := broker.TopClients{By: broker.ByQueue, Sessions: page.Total, Clients: []broker.TopClient{}}
	for c, err := range page.Items {
		if err != nil {
			return broker.TopClients{}, err
		}
		top.Examined++
		if c.Queues.MessagesOut > 0 {
			longest.Add(c)
		}
	}
	top.Sessions = max(top.Sessions, top.Examined) // clients may have come meanwhile
	for _, c := range longest.Sorted() {
		top.Clients = append(top.Clients, broker.TopClient{ClientID: c.ClientID, Username: c.Username, Address: c.Address,
			Connected: c.Connected, Queue: c.Queues.MessagesOut, QueueBytes: c.Queues.BytesOut})
	}
	return top, nil
}
