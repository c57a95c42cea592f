package access

import (
	"context"
	"iter"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// runOne runs one command of the Go API and passes its disconnects to OnDisconnect.
func (c *Control) runOne(ctx context.Context, command dynsec.Command) error {
	if r := c.remoteLeader(); r != nil {
		return withOp(c.forwardOne(ctx, r, command), command.Name())
	}
	answers, disconnects, err := c.do(ctx, []dynsec.Command{command})
	c.disconnect(disconnects)
	if err != nil {
		return withOp(err, command.Name())
	}
	return answers[0].Err()
}

// GetClient returns a client's record with its live connections.
func (c *Control) GetClient(_ context.Context, username string) (broker.Client, error) {
	client, ok := c.state.Load().Client(username)
	if !ok {
		return broker.Client{}, &broker.Error{Kind: broker.NotFound, Op: "getClient", Msg: "Client not found"}
	}
	client.Connections = c.live(username)
	return client, nil
}

// ListClients returns a page of the clients as they are at this moment, whatever changes
// while the caller reads on; their connections are those at the time of reading.
func (c *Control) ListClients(ctx context.Context, o broker.ListOptions[broker.Client]) (broker.Page[broker.Client], error) {
	page, err := c.state.Load().ListClients(ctx, o)
	if err == nil && !o.NamesOnly {
		page.Items = c.connected(page.Items)
	}
	return page, err
}

// connected sets the live connections of records.
func (c *Control) connected(clients iter.Seq2[broker.Client, error]) iter.Seq2[broker.Client, error] {
	return func(yield func(broker.Client, error) bool) {
		for client, err := range clients {
			client.Connections = c.live(client.Username)
			if !yield(client, err) {
				return
			}
		}
	}
}

// CreateClient creates a client.
func (c *Control) CreateClient(ctx context.Context, spec broker.ClientSpec) error {
	return c.runOne(ctx, dynsec.CreateClient(spec))
}

// ModifyClient changes the fields that the spec sets.
func (c *Control) ModifyClient(ctx context.Context, spec broker.ClientSpec) error {
	return c.runOne(ctx, dynsec.ModifyClient(spec))
}

// DeleteClient deletes a client and disconnects it.
func (c *Control) DeleteClient(ctx context.Context, username string) error {
	return c.runOne(ctx, dynsec.DeleteClient(username))
}

// EnableClient allows a client to log in again.
func (c *Control) EnableClient(ctx context.Context, username string) error {
	return c.runOne(ctx, dynsec.EnableClient(username))
}

// DisableClient disconnects a client and refuses its log-ins.
func (c *Control) DisableClient(ctx context.Context, username string) error {
	return c.runOne(ctx, dynsec.DisableClient(username))
}
