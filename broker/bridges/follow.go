package bridges

import (
	"context"
	"encoding/json"
	"errors"

	"signalbox/broker/messaging"
)

// adopt stores a configuration of the registry here, in place of the one that is stored here, nil for none. No
// connection of the bridge may be open.
func (b *bridge) adopt(ctx context.Context, here json.RawMessage, d messaging.Definition) error {
	b.rev, b.unread = d.Rev, d.Document == nil
	if d.Document == nil || string(here) == string(d.Document) {
		return nil
	}
	read, problems := b.kind.schema().read(d.Document, nil)
	if read == nil {
		b.log.Error("the stored configuration of a bridge cannot be read", "problem", problems[0].Msg)
		return nil
	}
	return b.store(ctx, read)
}

// follow puts in force what has changed in the registry.
func (e *Engine) follow(ctx context.Context) error {
	defined, _, err := e.host.Registry.Definitions(ctx, e.brokerID)
	for id, d := range defined {
		if b := e.bridge(id); b != nil && (b.rev != d.Rev || b.unread && d.Document != nil) {
			err = errors.Join(err, b.follow(ctx, d))
		}
	}
	return err
}

// follow puts a configuration of the registry in force. Its problems, if this version requires more than the one
// that stored it, are shown as problems of the connections.
func (b *bridge) follow(ctx context.Context, d messaging.Definition) error {
	if d.Document == nil { // it may be replaced
		b.rev, b.unread = d.Rev, true
		return nil
	}
	read, problems := b.kind.schema().read(d.Document, nil)
	if read == nil {
		b.log.Error("the configuration of a bridge cannot be read; the former one stays in force", "problem", problems[0].Msg)
		return nil
	}
	s := b.planChanges(read, &problems)
	err := b.commit(ctx, opFollow, read, s, problems, func(store func() error) error { return store() })
	if err == nil {
		b.rev, b.unread = d.Rev, false
	}
	return err
}
