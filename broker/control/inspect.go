package control

import (
	"context"
	"encoding/json"
	"iter"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Inspect executes a request on InspectTopic.
func Inspect(ctx context.Context, b broker.Inspector, payload []byte) []byte {
	return serve(ctx, payload,
		command{opListClients, func(ctx context.Context, args dynsec.Object) (any, error) {
			return listClients(ctx, b, args)
		}},
		command{opGetClient, func(ctx context.Context, args dynsec.Object) (any, error) {
			id, ok := args.Text("clientid")
			if !ok {
				return nil, errClientID
			}
			c, err := b.InspectClient(ctx, id)
			return c, missing(err, errNoClient)
		}},
	)
}

// clientList is the data of listClients: client ids or, if verbose, records.
type clientList struct {
	TotalCount int               `json:"totalCount"`
	Clients    []json.RawMessage `json:"clients"`
}

func listClients(ctx context.Context, b broker.Inspector, args dynsec.Object) (any, error) {
	offset, count := pageBounds(args)
	page, err := b.InspectClients(ctx, offset, count, false)
	if err != nil {
		return nil, err
	}
	verbose, _ := args.Bool("verbose")
	clients, err := collect(page.Items, verbose)
	return clientList{TotalCount: page.Total, Clients: clients}, err
}

func collect(items iter.Seq2[broker.ConnectedClient, error], verbose bool) ([]json.RawMessage, error) {
	clients, remaining := []json.RawMessage{}, maxResponse
	if items == nil {
		return clients, nil
	}
	for c, err := range items {
		if err != nil {
			return nil, err
		}
		entry := any(c)
		if !verbose {
			entry = c.ClientID
		}
		raw := encode(entry)
		if remaining -= len(raw); remaining < 0 {
			return nil, errTooLarge
		}
		clients = append(clients, raw)
	}
	return clients, nil
}

// pageBounds returns the requested part of a list: a negative count is all of it.
func pageBounds(args dynsec.Object) (offset, count int) {
	offset, _ = args.Int("offset")
	count, ok := args.Int("count")
	if !ok {
		count = -1
	}
	return max(offset, 0), max(count, -1)
}
