package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams/query"
)

// loaded returns the definitions of the streams, each stored here, and those that are stored here and not defined any
// more.
func (e *Engine) loaded(ctx context.Context) (all, undefined []Definition, err error) {
	defined, ok, err := e.host.Registry.Definitions(ctx, e.brokerID)
	switch {
	case err != nil:
		return nil, nil, err
	case ok:
		return e.adoptAll(ctx, defined)
	}
	all, err = e.host.store.Definitions(ctx, e.brokerID)
	return all, nil, err
}

// adoptAll stores the definitions of the registry here. It returns them, and those that are stored here and not among
// them.
func (e *Engine) adoptAll(ctx context.Context, defined map[string]messaging.Definition) (all, undefined []Definition, err error) {
	here, err := e.host.store.Definitions(ctx, e.brokerID)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range here {
		text, ok := defined[d.StreamName]
		if !ok {
			undefined = append(undefined, d)
			continue
		}
		delete(defined, d.StreamName)
		if d, err = e.adopt(ctx, d, text.Document, text.Rev); err != nil {
			return nil, nil, err
		}
		all = append(all, d)
	}
	for name, text := range defined {
		d, err := e.adopt(ctx, Definition{Stream: broker.Stream{StreamName: name}}, text.Document, text.Rev)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, d)
	}
	return all, undefined, nil
}

// adopt stores a definition of the registry here, in place of one that is stored here; one without an ID is
// not. It returns the definition.
func (e *Engine) adopt(ctx context.Context, here Definition, document []byte, rev int64) (Definition, error) {
	d := Definition{ID: here.ID, Rev: rev}
	if err := json.Unmarshal(document, &d.Stream); err != nil {
		return d, fmt.Errorf("read the definition of stream %q: %w", here.StreamName, err)
	}
	d.StreamName = here.StreamName
	if here.ID > 0 && string(Encode(here.Stream)) == string(Encode(d.Stream)) {
		return d, nil
	}
	id, err := e.host.store.Put(ctx, e.brokerID, d)
	d.ID = id
	return d, err
}

// Encode returns a stream as a messaging.Registry has it.
func Encode(s broker.Stream) []byte {
	s.Replaying, s.Error, s.Replay, s.Stats, s.Rate = false, "", nil, nil, nil
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a query is valid JSON, or none
	}
	return text
}

// put stores a definition in the registry, and by store here. It returns the revision.
func (e *Engine) put(ctx context.Context, d Definition, store func() error) (int64, error) {
	return e.host.Registry.Put(ctx, e.brokerID, d.StreamName, Encode(d.Stream), d.Rev, store)
}

// discard deletes what is stored here of a stream that is not defined any more. It must not be open.
func (e *Engine) discard(ctx context.Context, d Definition) error {
	e.log.Warn("a stream was deleted at another node of the cluster; what it has stored here is deleted", "stream", d.StreamName)
	return e.host.store.Delete(ctx, d.ID)
}

// follow puts in force what has changed in the registry.
func (e *Engine) follow(ctx context.Context) error {
	defined, ok, err := e.host.Registry.Definitions(ctx, e.brokerID)
	if err != nil || !ok {
		return err
	}
	all, undefined, err := e.adoptAll(ctx, defined)
	for _, d := range undefined {
		if s := e.stream(d.StreamName); s != nil {
			err = errors.Join(err, e.delete(ctx, s))
		} else {
			err = errors.Join(err, e.discard(ctx, d))
		}
	}
	for _, d := range all {
		err = errors.Join(err, e.followOne(ctx, d))
	}
	return err
}

// followOne puts a definition in force.
func (e *Engine) followOne(ctx context.Context, d Definition) error {
	s := e.stream(d.StreamName)
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
