package handlers

import (
	"context"
	"errors"
	"time"

	"signalbox/broker"
	"signalbox/db"
)

// followInterval is the time between two attempts to apply what has changed.
const followInterval = time.Second

// followed is what a node has applied of the content that the nodes of a cluster share.
type followed struct {
	known    map[string]struct{} // ids of the connections
	replaced uint64              // how often the content was replaced
	node     string              // with which NodeID
}

// PrepareFollow notes which connections there are, before the content can change.
func (c *Connections) PrepareFollow(ctx context.Context) error {
	rows, replaced, err := c.connections(ctx)
	c.followed = followed{known: idsOf(rows), replaced: replaced, node: c.NodeID()}
	return err
}

// connections returns the connections, and how often the content had been replaced after that.
func (c *Connections) connections(ctx context.Context) (rows []db.Broker, replaced uint64, err error) {
	rows, err = c.DB.AllBrokers(ctx)
	return rows, c.DB.Replaced(), err
}

func idsOf(rows []db.Broker) map[string]struct{} {
	ids := make(map[string]struct{}, len(rows))
	for _, row := range rows {
		ids[row.ID] = struct{}{}
	}
	return ids
}

// ConnectAll connects every stored broker in the background.
func (c *Connections) ConnectAll(ctx context.Context) error {
	rows, err := c.DB.AllBrokers(ctx)
	c.followed.node = c.NodeID()
	c.connectEach(rows)
	return err
}

func (c *Connections) connectEach(rows []db.Broker) {
	for _, row := range rows {
		if d, ok := ofEmbedded(row); ok && d.Node != c.DB.Origin() && c.checkEmbedded(row) != nil {
			continue // it is that of another node
		}
		c.connectInBackground(row)
	}
}

// FollowData applies here, until ctx ends, what other nodes of a cluster change in the data that they
// share: new and changed connections are made, those of deleted records are closed, and what this
// service stores for them is deleted; and the broker in this process has its record. PrepareFollow
// comes before.
func (a *API) FollowData(ctx context.Context) {
	for first := true; ctx.Err() == nil; first = false {
		changed := a.DB.Changed()
		var again <-chan time.Time
		var err error
		if !first || a.DB.IsShared() {
			err = a.follow(ctx)
		}
		if err != nil {
			if broker.KindOf(err) != broker.Unavailable && !errors.Is(err, db.ErrUnavailable) && !errors.Is(err, db.ErrUnconfirmed) && ctx.Err() == nil {
				a.Log.WarnContext(ctx, "the broker connections are not yet as they are stored", "error", err)
			}
			again = time.After(followInterval)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// follow applies what has changed.
func (a *API) follow(ctx context.Context) error {
	var failed error
	if a.inProcess != nil {
		failed = a.storeEmbedded(ctx)
	}
	rows, replaced, err := a.connections(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	now, node := idsOf(rows), a.NodeID()
	for id := range a.followed.known {
		switch _, stored := now[id]; {
		case stored || id == a.Embedded():
		case replaced != a.followed.replaced: // what is stored for it may be needed when the node leaves the cluster
			a.release(ctx, id)
		default:
			a.drop(ctx, id)
		}
	}
	for id := range now {
		if node != a.followed.node && id != a.Embedded() { // it has other client ids from now on
			a.release(ctx, id)
		}
	}
	a.followed = followed{known: now, replaced: replaced, node: node}
	a.connectEach(rows)
	return failed
}

// release closes the connection of a record that this node does not have at present.
func (c *Connections) release(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, dropTime)
	defer cancel()
	if err := c.Brokers.Release(ctx, id); err != nil {
		c.Log.WarnContext(ctx, "broker connection was not closed cleanly", "broker", id, "error", err)
	}
}
