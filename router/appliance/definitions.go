package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/embedded"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/db"
)

// definitions are those of the streams and bridges that this service runs for connected brokers. They are in the
// stores of streams and of bridges until the nodes of a cluster first share the database, and in the database from
// then on: also after that, as other nodes may have changed them there.
type definitions struct {
	db      *db.DB
	keys    *sharedKeys
	streams streams.Store
	bridges bridges.Store
	log     *slog.Logger
	follows atomic.Bool // another node takes the messages

	mu sync.RWMutex // held for writing while definitions are moved to the database
}

// registry is the messaging.Registry for one kind of definitions.
type registry struct {
	*definitions
	kind db.DefinitionKind
}

var _ messaging.Registry = registry{}

// Changed implements messaging.Registry.
func (r registry) Changed() <-chan struct{} { return r.db.DefinitionsChanged() }

// Definitions implements messaging.Registry.
func (r registry) Definitions(ctx context.Context, brokerID string) (map[string]messaging.Definition, bool, error) {
	if brokerID == embedded.StoreID {
		return nil, false, nil
	}
	if !r.db.HasImported() {
		if !r.db.IsShared() {
			return nil, false, nil
		}
		if err := r.move(ctx, func() error { return nil }); err != nil { // the former release stored none in the database
			return nil, false, err
		}
	}
	rows, err := r.db.ListDefinitions(ctx, r.kind, brokerID)
	if err != nil {
		return nil, false, err
	}
	all := make(map[string]messaging.Definition, len(rows))
	for _, row := range rows {
		document, err := r.open(row)
		if err != nil {
			return nil, false, fmt.Errorf("open the definition of %s: %w", row.Name, err)
		}
		all[row.Name] = messaging.Definition{Rev: row.Rev, Document: document}
	}
	return all, true, nil
}

// open returns the document of a definition.
func (d *definitions) open(row db.Definition) ([]byte, error) {
	if row.Kind != db.BridgeDefinition {
		return row.Document, nil
	}
	return d.keys.Unseal(row.Document, []byte(row.ID()))
}

// newDefinition returns a definition as it is stored, with a new revision.
func (d *definitions) newDefinition(kind db.DefinitionKind, brokerID, name string, document []byte) db.Definition {
	row := db.Definition{Kind: kind, BrokerID: brokerID, Name: name, Rev: 1 + rand.Int64N(1<<62), Document: document}
	if kind == db.BridgeDefinition {
		row.Document = d.keys.Seal(document, []byte(row.ID()))
	}
	return row
}

// Put implements messaging.Registry.
func (r registry) Put(ctx context.Context, brokerID, name string, document []byte, rev int64, store func() error) (int64, error) {
	if done, err := r.putLocal(brokerID, store); done {
		return 0, err
	}
	row, err := r.newDefinition(r.kind, brokerID, name, document), error(nil)
	if document == nil {
		row.Rev = rev
		err = r.db.DeleteDefinition(ctx, row)
	} else {
		err = r.db.PutDefinition(ctx, row, rev)
	}
	if err != nil {
		return 0, definitionError(err, r.kind, rev)
	}
	if err := store(); err != nil {
		return 0, &broker.Error{Kind: broker.Unconfirmed, Err: err,
			Msg: "the change is stored, and is not in force at this node yet, which tries again: " + err.Error()}
	}
	return row.Rev, nil
}

// putLocal calls store if the database does not have the definitions of a broker, and reports whether it did.
func (r registry) putLocal(brokerID string, store func() error) (bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if brokerID != embedded.StoreID && r.db.HasImported() {
		return false, nil
	}
	return true, store()
}

// definitionError returns an error of the database as one for users.
func definitionError(err error, kind db.DefinitionKind, rev int64) error {
	e := &broker.Error{Kind: broker.Internal, Err: err, Msg: "the database failed; see the service's log"}
	switch {
	case errors.Is(err, db.ErrConflict) && rev == 0:
		e.Kind, e.Msg = broker.Exists, "another node of the cluster has just created this "+string(kind)
	case errors.Is(err, db.ErrConflict):
		e.Kind, e.Msg = broker.Conflict, "this "+string(kind)+" was changed at another node of the cluster meanwhile: look at it, and repeat the change if it is still wanted"
	case errors.Is(err, db.ErrNotFound):
		e.Kind, e.Msg = broker.NotFound, "the broker connection was deleted meanwhile"
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, db.ErrNoKey):
		e.Kind, e.Msg = broker.Unavailable, "the cluster cannot store the change at present, nothing was changed: try again when a majority of its nodes is in contact"
	case errors.Is(err, db.ErrUnconfirmed):
		e.Kind, e.Msg = broker.Unconfirmed, "the cluster did not confirm the change in time: look whether it was made before you repeat it"
	}
	return e
}

// move stores the definitions of all connected brokers in the database, unless that has them, and calls then before one
// can be changed in the other stores.
func (d *definitions) move(ctx context.Context, then func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.db.HasImported() {
		rows, err := d.db.AllBrokers(ctx)
		for _, row := range rows {
			err = errors.Join(err, d.moveStreams(ctx, row.ID), d.moveBridges(ctx, row.ID))
		}
		if err == nil {
			err = d.db.Imported(ctx)
		}
		if err != nil {
			return fmt.Errorf("share the streams and bridges of connected brokers: %w", err)
		}
	}
	return then()
}

func (d *definitions) moveStreams(ctx context.Context, brokerID string) error {
	all, err := d.streams.Definitions(ctx, brokerID)
	for _, s := range all {
		err = errors.Join(err, d.moveOne(ctx, db.StreamDefinition, brokerID, s.StreamName, streams.Encode(s.Stream)))
	}
	return err
}

func (d *definitions) moveBridges(ctx context.Context, brokerID string) error {
	all, err := d.bridges.Configs(ctx, brokerID)
	for id, document := range all {
		err = errors.Join(err, d.moveOne(ctx, db.BridgeDefinition, brokerID, id, document))
	}
	return err
}

func (d *definitions) moveOne(ctx context.Context, kind db.DefinitionKind, brokerID, name string, document []byte) error {
	err := d.db.PutDefinition(ctx, d.newDefinition(kind, brokerID, name, document), 0)
	switch {
	case errors.Is(err, db.ErrConflict):
		d.log.Warn("another node of the cluster has defined it, too, and that definition counts from now on", "kind", string(kind), "broker", brokerID, "name", name)
		return nil
	case errors.Is(err, db.ErrNotFound): // the connection was deleted meanwhile
		return nil
	}
	return err
}

// switchOff switches off all streams and bridges in the database, which is this node's own again, if the nodes of its
// former cluster go on with them.
func (d *definitions) switchOff(ctx context.Context) error {
	if !d.follows.Load() || !d.db.HasImported() {
		return nil
	}
	rows, err := d.db.AllDefinitions(ctx)
	for _, row := range rows {
		err = errors.Join(err, d.switchOffOne(ctx, row))
	}
	if err != nil {
		return fmt.Errorf("switch off the streams and bridges of connected brokers: %w", err)
	}
	d.db.ContentReplaced()
	return nil
}

func (d *definitions) switchOffOne(ctx context.Context, row db.Definition) error {
	document, err := d.open(row)
	if errors.Is(err, db.ErrNoKey) {
		return nil // nobody can use it
	}
	if err == nil {
		document, err = inactive(row.Kind, document)
	}
	if err != nil {
		return err
	}
	return d.db.PutDefinition(ctx, d.newDefinition(row.Kind, row.BrokerID, row.Name, document), row.Rev)
}

// inactive returns a document whose stream is not active, or whose connections are not enabled.
func inactive(kind db.DefinitionKind, document []byte) ([]byte, error) {
	if kind == db.StreamDefinition {
		return withMember(document, "active", false)
	}
	var bridge struct {
		Connections []json.RawMessage `json:"connections"`
	}
	if err := json.Unmarshal(document, &bridge); err != nil {
		return nil, err
	}
	for i, c := range bridge.Connections {
		changed, err := withMember(c, "enabled", false)
		if err != nil {
			return nil, err
		}
		bridge.Connections[i] = changed
	}
	if bridge.Connections == nil {
		return document, nil
	}
	return withMember(document, "connections", bridge.Connections)
}

// withMember returns a JSON object with another value of a member.
func withMember(object []byte, name string, value any) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	members[name] = text
	return json.Marshal(members)
}
