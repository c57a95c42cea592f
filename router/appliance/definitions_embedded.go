package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/db"
)

// The definitions of the embedded broker are in the stores of streams and of bridges until the nodes of a cluster in syncmode
// full or hp first share the database, and in the database from then on, as those of the embedded brokers of all nodes.

// isEmbedded reports whether an id is one under which the streams and bridges of the embedded broker are stored.
func isEmbedded(id string) bool { return brokerOf(id) == embedded.StoreID }

// brokerOf returns the broker to which an id belongs under which streams and bridges are stored.
func brokerOf(id string) string {
	before, _, _ := strings.Cut(id, "/")
	return before
}

// ofConnection returns the id of the connection, "" for the embedded broker.
func ofConnection(brokerID string) string {
	if isEmbedded(brokerID) {
		return ""
	}
	return brokerID
}

// storeID returns the id under which this machine stores the streams and bridges of the embedded broker.
func storeID(s db.EmbeddedState) string {
	if s.Content == "" {
		return embedded.StoreID
	}
	return embedded.StoreID + "/" + s.Content
}

// errReplaced is why what the embedded broker had on its own is not changed any more.
var errReplaced = &broker.Error{Kind: broker.Unavailable, Msg: "the streams and bridges of this broker are about to be those of its cluster: try again"}

// ofEmbedded returns the definitions of the embedded brokers, unless the id is that of content which was replaced.
func (r registry) ofEmbedded(ctx context.Context, id string) (map[string]messaging.Definition, bool, error) {
	rows, state, err := r.db.ListEmbedded(ctx, r.kind)
	if err != nil || !state.Stored || storeID(state) != id {
		return nil, false, err
	}
	return r.opened(ctx, id, rows)
}

// beginEmbedded stores the definitions of the embedded broker in the database before it becomes that of several nodes, if
// these are to share messages, too; else it has them in the stores of this machine alone.
func (d *definitions) beginEmbedded(ctx context.Context, sharesMessages bool) error {
	stored := d.db.EmbeddedState().Stored
	if err := d.forgetReplaced(ctx); err != nil {
		return err
	}
	switch {
	case sharesMessages && !stored:
		return d.importEmbedded(ctx)
	case !sharesMessages && stored:
		return d.db.ReleaseEmbedded(ctx)
	}
	return nil
}

// forgetReplaced deletes what this machine still has of streams and bridges of the embedded broker that those of a cluster
// have replaced. Nothing puts them back any more.
func (d *definitions) forgetReplaced(ctx context.Context) error {
	present := storeID(d.db.EmbeddedState())
	for _, of := range []struct {
		brokers func(context.Context) ([]string, error)
		forget  func(context.Context, string) error
	}{{d.streams.Brokers, d.streams.Forget}, {d.bridges.Brokers, d.bridges.Forget}} {
		ids, err := of.brokers(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !isEmbedded(id) || id == present {
				continue
			}
			if err := of.forget(ctx, id); err != nil {
				return fmt.Errorf("delete streams and bridges that were replaced by those of a cluster: %w", err)
			}
		}
	}
	return nil
}

// importEmbedded adds the definitions that the stores of this machine have to those in the database.
func (d *definitions) importEmbedded(ctx context.Context) error {
	all, err := d.ofMachine(ctx, storeID(d.db.EmbeddedState()), "")
	if err != nil {
		return fmt.Errorf("share the streams and bridges of the embedded broker: %w", err)
	}
	defined, err := d.db.ImportEmbedded(ctx, all)
	if errors.Is(err, db.ErrTooLarge) {
		if defined, err = d.importEach(ctx, all); err == nil {
			err = d.db.NoteEmbedded(ctx)
		}
	}
	d.logDefined(defined)
	if err == nil {
		err = d.adoptEqual(ctx, defined)
	}
	if err != nil {
		return fmt.Errorf("share the streams and bridges of the embedded broker: %w", err)
	}
	return nil
}

// adoptEqual makes streams of this machine, which were defined in the same way at another node, that node's: what is stored here
// of another stream of the name would be deleted.
func (d *definitions) adoptEqual(ctx context.Context, defined []db.Definition) error {
	if len(defined) == 0 {
		return nil
	}
	id := storeID(d.db.EmbeddedState())
	own, err := d.streams.Definitions(ctx, id)
	if err != nil {
		return err
	}
	all, _, err := d.db.ListEmbedded(ctx, db.StreamDefinition)
	if err != nil {
		return err
	}
	for _, s := range own {
		i := slices.IndexFunc(all, func(row db.Definition) bool { return row.Name == s.StreamName })
		if i < 0 {
			continue
		}
		uid := s.UID
		if s.UID, err = streams.UID(all[i].Document); err != nil {
			return err
		}
		if s.UID == uid || !bytes.Equal(streams.Encode(s), all[i].Document) {
			continue
		}
		if _, err := d.streams.Put(ctx, id, s); err != nil {
			return err
		}
	}
	return nil
}

// embeddedDefinitions are the definitions as the embedded broker has them.
type embeddedDefinitions struct{ sharedDatabase }

var _ embedded.Definitions = embeddedDefinitions{}

// StoreID implements embedded.Definitions.
func (d embeddedDefinitions) StoreID() string { return storeID(d.EmbeddedState()) }

// Wait implements embedded.Definitions.
func (d embeddedDefinitions) Wait() bool { return d.IsOutdated() && !d.EmbeddedState().Stored }

// Share implements embedded.Definitions.
func (d embeddedDefinitions) Share(ctx context.Context) error {
	if d.EmbeddedState().Stored {
		return nil
	}
	return d.definitions.importEmbedded(ctx) // the former release has stored none in the database
}

// Serving implements embedded.Definitions.
func (d embeddedDefinitions) Serving(ctx context.Context) (context.Context, error) {
	return d.leading.Serving(ctx)
}

// ClientID implements embedded.Definitions.
func (d embeddedDefinitions) ClientID() string { return embedded.StoreID + d.ClientSuffix() }
