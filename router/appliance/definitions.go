package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/db"
	"signalbox/handlers/vault"
)

// definitions are those of the streams and bridges that this service runs for connected brokers, and for the embedded
// brokers of a cluster (definitions_embedded.go). They are in the stores of streams and of bridges until the nodes of a cluster first share the database, and in the database from
// then on: also after that, as other nodes may have changed them there.
type definitions struct {
	db      *db.DB
	keys    *sharedKeys
	streams streamStore
	bridges bridgeStore
	log     *slog.Logger

	mu        sync.RWMutex // held for writing while the database becomes that of several nodes
	importing sync.Mutex

	flushing sync.Mutex                  // guards flushed
	flushed  map[string]map[string]int64 // by kind and broker, the revisions by name, as they are on the disk

	awaiting     sync.Mutex // guards the fields below
	awaited      string     // key that was missing last
	awaitedSince time.Time
}

// streamStore is the store of streams of all brokers.
type streamStore interface {
	streams.Store
	Brokers(ctx context.Context) ([]string, error)
}

// bridgeStore is the store of bridges of all brokers.
type bridgeStore interface {
	bridges.Store
	Brokers(ctx context.Context) ([]string, error)
}

// registry is the messaging.Registry for one kind of definitions.
type registry struct {
	*definitions
	kind db.DefinitionKind
}

var _ messaging.Registry = registry{}

// Changed implements messaging.Registry.
func (r registry) Changed() <-chan struct{} { return r.db.DefinitionsChanged() }

// Owner implements messaging.Registry.
func (r registry) Owner(brokerID, own string) string {
	name := brokerOf(brokerID)
	if isEmbedded(brokerID) && !r.db.EmbeddedState().Stored {
		return own + "/" + name
	}
	owner, err := r.db.BridgeOwner(context.Background())
	if err != nil {
		r.log.Error("bridges connect with client ids of this node alone", "broker", name, "error", err)
	}
	return cmp.Or(owner, own) + "/" + name
}

// Definitions implements messaging.Registry.
func (r registry) Definitions(ctx context.Context, brokerID string) (map[string]messaging.Definition, bool, error) {
	if isEmbedded(brokerID) {
		return r.ofEmbedded(ctx, brokerID)
	}
	if !r.db.HasImported() {
		if !r.db.IsShared() {
			return nil, false, nil
		}
		if err := r.importShared(ctx); err != nil { // the former release stored none in the database
			return nil, false, err
		}
	}
	rows, err := r.db.ListDefinitions(ctx, r.kind, brokerID)
	if errors.Is(err, db.ErrNotFound) { // the connection is about to be closed; what is stored may be needed again
		r.forget(brokerID)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return r.opened(ctx, brokerID, rows)
}

// opened returns definitions with their documents.
func (r registry) opened(ctx context.Context, brokerID string, rows []db.Definition) (map[string]messaging.Definition, bool, error) {
	if err := r.flush(ctx, brokerID, rows); err != nil {
		return nil, false, err
	}
	all := make(map[string]messaging.Definition, len(rows))
	for _, row := range rows {
		document, err := r.open(row)
		if errors.Is(err, db.ErrNoKey) && r.awaitsKey(vault.KeyOf(row.Document)) {
			return nil, false, fmt.Errorf("open the %s %q: %w", row.Kind, row.Name, err)
		}
		if err != nil {
			r.log.Warn("a definition cannot be opened; define it again if that stays so", "kind", string(row.Kind), "broker", brokerID, "name", row.Name, "error", err)
			document = nil
		}
		all[row.Name] = messaging.Definition{Rev: row.Rev, Document: document}
	}
	return all, true, nil
}

// flush brings to the disk what a shared database has of a broker, whose entries of the log are applied without that. After a loss of
// power it would lack them for a while, and what is stored of streams that it does not have is deleted.
func (r registry) flush(ctx context.Context, brokerID string, rows []db.Definition) error {
	if len(rows) == 0 || !r.db.IsShared() {
		return nil
	}
	revs := make(map[string]int64, len(rows))
	for _, row := range rows {
		revs[row.Name] = row.Rev
	}
	key := r.flushedKey(brokerID)
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if before, ok := r.flushed[key]; ok && maps.Equal(before, revs) {
		return nil
	}
	if err := r.db.Flush(ctx); err != nil {
		return err
	}
	if r.flushed == nil {
		r.flushed = map[string]map[string]int64{}
	}
	r.flushed[key] = revs
	return nil
}

func (r registry) flushedKey(brokerID string) string { return string(r.kind) + "/" + brokerID }

// keyTime is how long a key is waited for that another node is to send. After that, what is sealed with it does not hold up the rest.
const keyTime = time.Minute

// awaitsKey reports whether a key that this node does not have is waited for.
func (d *definitions) awaitsKey(id string) bool {
	if !d.db.IsShared() || id != d.db.KeyState().ID {
		return false
	}
	d.awaiting.Lock()
	defer d.awaiting.Unlock()
	if d.awaited != id {
		d.awaited, d.awaitedSince = id, time.Now()
	}
	return time.Since(d.awaitedSince) < keyTime
}

// forget deletes what flush has noted of a broker.
func (r registry) forget(brokerID string) {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	delete(r.flushed, r.flushedKey(brokerID))
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
	row, err := r.newDefinition(r.kind, ofConnection(brokerID), name, document), error(nil)
	if document == nil {
		row.Rev = rev
		err = r.db.DeleteDefinition(ctx, row)
	} else {
		err = r.db.PutDefinition(ctx, row, rev)
	}
	if err != nil {
		return 0, definitionError(err, r.kind)
	}
	err = r.db.Flush(ctx)
	if err == nil {
		err = store()
	}
	if err != nil {
		r.db.NotifyDefinitions() // so that it is tried again
		return 0, &broker.Error{Kind: broker.Unconfirmed, Err: err,
			Msg: "the change is stored, and is not in force at this node yet, which tries again: " + err.Error()}
	}
	return row.Rev, nil
}

// putLocal calls store if the database does not have the definitions of a broker, and reports whether it did.
func (r registry) putLocal(brokerID string, store func() error) (bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch state := r.db.EmbeddedState(); {
	case isEmbedded(brokerID) && state.Stored:
		if storeID(state) != brokerID {
			return true, errReplaced
		}
		return false, nil
	case !isEmbedded(brokerID) && r.db.HasImported():
		return false, nil
	}
	return true, store()
}

// definitionError returns an error of the database as one for users.
func definitionError(err error, kind db.DefinitionKind) error {
	e := &broker.Error{Kind: broker.Internal, Err: err, Msg: "the database failed; see the service's log"}
	switch {
	case errors.Is(err, db.ErrConflict):
		e.Kind, e.Msg = broker.Conflict, "this "+string(kind)+" was just changed at another node of the cluster: look at it, and repeat the change if it is still wanted"
	case errors.Is(err, db.ErrTooLarge):
		e.Kind, e.Msg = broker.Invalid, "this "+string(kind)+" is larger than a cluster can store: divide it"
	case errors.Is(err, db.ErrNotFound):
		e.Kind, e.Msg = broker.NotFound, "the broker connection was deleted meanwhile"
	case errors.Is(err, db.ErrUnavailable), errors.Is(err, db.ErrNoKey):
		e.Kind, e.Msg = broker.Unavailable, "the cluster cannot store the change at present, nothing was changed: try again when a majority of its nodes is in contact"
	case errors.Is(err, db.ErrUnconfirmed):
		e.Kind, e.Msg = broker.Unconfirmed, "the cluster did not confirm the change in time: look whether it was made before you repeat it"
	}
	return e
}

// begin has then make the database that of several nodes. Before, the definitions of this machine are stored in it,
// unless it has them, and none of them changes meanwhile.
func (d *definitions) begin(ctx context.Context, sharesMessages bool, then func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.db.HasImported() {
		if err := d.importAll(ctx); err != nil {
			return err
		}
	}
	if err := d.beginEmbedded(ctx, sharesMessages); err != nil {
		return err
	}
	return then()
}

// importShared stores the definitions of this machine, of the time before the nodes shared them, in the database.
func (d *definitions) importShared(ctx context.Context) error {
	if !d.importing.TryLock() {
		return errors.New("the streams and bridges are being moved to the data of the cluster")
	}
	defer d.importing.Unlock()
	if d.db.HasImported() {
		return nil
	}
	return d.importAll(ctx)
}

// importAll stores the definitions of all connected brokers in the database.
func (d *definitions) importAll(ctx context.Context) error {
	rows, err := d.db.AllBrokers(ctx)
	if err != nil {
		return err
	}
	var all []db.Definition
	for _, row := range rows {
		own, err := d.ofMachine(ctx, row.ID, row.ID)
		if err != nil {
			return fmt.Errorf("share the streams and bridges of connected brokers: %w", err)
		}
		all = append(all, own...)
	}
	defined, err := d.db.ImportDefinitions(ctx, d.bridges.Identity(), all)
	if errors.Is(err, db.ErrTooLarge) {
		if defined, err = d.importEach(ctx, all); err == nil {
			err = d.db.AddImported(ctx, d.bridges.Identity())
		}
	}
	d.logDefined(defined)
	if err != nil {
		return fmt.Errorf("share the streams and bridges of connected brokers: %w", err)
	}
	return nil
}

// logDefined logs which definitions of this machine do not count.
func (d *definitions) logDefined(defined []db.Definition) {
	for _, row := range defined {
		d.log.Warn("it is defined in the cluster already, and that definition counts from now on", "kind", string(row.Kind), "broker", row.BrokerID, "name", row.Name)
	}
}

// importEach is importAll of definitions that are too large together for an entry of the log.
func (d *definitions) importEach(ctx context.Context, all []db.Definition) (defined []db.Definition, err error) {
	for _, row := range all {
		switch err := d.db.PutDefinition(ctx, row, 0); {
		case errors.Is(err, db.ErrConflict):
			defined = append(defined, row)
		case errors.Is(err, db.ErrNotFound): // the connection was deleted meanwhile
		case errors.Is(err, db.ErrTooLarge):
			d.log.Error("a definition is larger than a cluster can store, and does not count any more", "kind", string(row.Kind), "broker", row.BrokerID, "name", row.Name)
		case err != nil:
			return nil, err
		}
	}
	return defined, nil
}

// ofMachine returns the definitions of a broker that the stores of this machine have under an id, as those of a connection.
func (d *definitions) ofMachine(ctx context.Context, storeID, brokerID string) (all []db.Definition, err error) {
	defined, err := d.streams.Definitions(ctx, storeID)
	if err != nil {
		return nil, err
	}
	for _, s := range defined {
		all = append(all, d.newDefinition(db.StreamDefinition, brokerID, s.StreamName, streams.Encode(s)))
	}
	configs, err := d.bridges.Configs(ctx, storeID)
	for id, document := range configs {
		all = append(all, d.newDefinition(db.BridgeDefinition, brokerID, id, document))
	}
	return all, err
}
