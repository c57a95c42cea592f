package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/streams/query"
)

// loaded returns the definitions of the streams, each stored here. What is stored here and not defined any more is
// deleted.
func (e *Engine) loaded(ctx context.Context) ([]Definition, error) {
	defined, ok, err := e.defined(ctx)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return e.adoptAll(ctx, defined, e.discard)
	}
	return e.host.store.Definitions(ctx, e.brokerID)
}

// defined returns the definitions of the registry by name. It reports false if the registry does not have those of the broker.
func (e *Engine) defined(ctx context.Context) (all map[string]Definition, ok bool, err error) {
	defined, ok, err := e.host.Registry.Definitions(ctx, e.brokerID)
	if err != nil || !ok {
		return nil, ok, err
	}
	all = make(map[string]Definition, len(defined))
	for name, text := range defined {
		d, err := decode(text.Document)
		if err != nil {
			return nil, true, fmt.Errorf("read the definition of stream %q: %w", name, err)
		}
		d.StreamName, d.Rev = name, text.Rev
		all[name] = d
	}
	return all, true, nil
}

// adoptAll stores the definitions of the registry here, and returns them. Before, it calls drop for streams that are stored here and not
// among them, even if another one has the name now. Where that fails, the former one keeps the name.
func (e *Engine) adoptAll(ctx context.Context, defined map[string]Definition, drop func(context.Context, Definition) error) (all []Definition, err error) {
	stored, err := e.host.store.Definitions(ctx, e.brokerID)
	if err != nil {
		return nil, err
	}
	here := make(map[string]Definition, len(stored))
	for _, d := range stored {
		if next, ok := defined[d.StreamName]; ok && next.UID == d.UID {
			here[d.StreamName] = d
		} else if failed := drop(ctx, d); failed != nil {
			err = errors.Join(err, failed)
			delete(defined, d.StreamName)
		}
	}
	for name, d := range defined {
		id, failed := e.adopt(ctx, here[name], d)
		if err = errors.Join(err, failed); failed == nil {
			d.ID = id
			all = append(all, d)
		}
	}
	return all, err
}

// adopt stores a definition of the registry here, in place of one that is stored here; one without an ID is
// not. It returns the ID.
func (e *Engine) adopt(ctx context.Context, here, d Definition) (int64, error) {
	d.ID = here.ID
	if here.ID > 0 && string(Encode(here)) == string(Encode(d)) {
		return here.ID, nil
	}
	return e.host.store.Put(ctx, e.brokerID, d)
}

// document is a definition as a messaging.Registry has it.
type document struct {
	broker.Stream
	UID int64 `json:"uid,omitempty"`
}

// Encode returns a definition as a messaging.Registry has it.
func Encode(d Definition) []byte {
	s := d.Stream
	s.Replaying, s.Error, s.Replay, s.Stats, s.Rate = false, "", nil, nil, nil
	text, err := json.Marshal(document{s, d.UID})
	if err != nil {
		panic(err) // a query is valid JSON, or none
	}
	return text
}

// decode is the inverse of Encode. It does not return the revision.
func decode(text []byte) (Definition, error) {
	var d document
	err := json.Unmarshal(text, &d)
	return Definition{UID: d.UID, Stream: d.Stream}, err
}

// UID returns the UID in a definition that Encode has returned.
func UID(text []byte) (int64, error) {
	d, err := decode(text)
	return d.UID, err
}

// put stores a definition in the registry, and by store here. It returns the revision.
func (e *Engine) put(ctx context.Context, d Definition, store func() error) (int64, error) {
	return e.host.Registry.Put(ctx, e.brokerID, d.StreamName, Encode(d), d.Rev, store)
}

// discard deletes what is stored here of a stream that is not defined any more. It must not be open.
func (e *Engine) discard(ctx context.Context, d Definition) error {
	e.log.Warn("a stream was deleted at another node of the cluster, or deleted and created again; what it has stored here is deleted", "stream", d.StreamName)
	return e.host.store.Delete(ctx, d.ID)
}

// follow puts in force what has changed in the registry.
func (e *Engine) follow(ctx context.Context) error {
	defined, ok, err := e.defined(ctx)
	if err != nil || !ok {
		return err
	}
	all, err := e.adoptAll(ctx, defined, e.drop)
	for _, d := range all {
		err = errors.Join(err, e.followOne(ctx, d))
	}
	return err
}

// drop stops a stream that is not defined any more, and deletes what is stored here of it.
func (e *Engine) drop(ctx context.Context, d Definition) error {
	if s := e.stream(d.StreamName); s != nil {
		s.log.Info("the stream was deleted at another node of the cluster, or deleted and created again; what it has stored here is deleted")
		return e.delete(ctx, s)
	}
	return e.discard(ctx, d)
}

// followOne puts a definition in force.
func (e *Engine) followOne(ctx context.Context, d Definition) error {
	s := e.stream(d.StreamName)
	if s != nil && (s.isDetached() || s.plan.Load().ID != d.ID) { // its deletion, or opening it after that, had failed
		if !s.isDetached() {
			s.detach()
			s.close(ctx)
		}
		s = nil
	}
	if s == nil {
		s, err := e.open(ctx, d)
		if err == nil {
			e.add(s)
		}
		return err
	}
	if s.plan.Load().Rev == d.Rev {
		return nil
	}
	q, err := query.Compile(d.Query)
	if err != nil {
		s.log.Error("the definition of a stream cannot be used; the former one stays in force", "error", err)
		return nil
	}
	s.modify(d, q)
	return nil
}
