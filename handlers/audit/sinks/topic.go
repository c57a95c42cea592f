package sinks

import "context"

// topic publishes each record as a message on a topic of the broker in this process.
type topic struct {
	name    string
	publish func(ctx context.Context, topic string, payload []byte) error
}

func (t *topic) send(ctx context.Context, list []record) error {
	for _, r := range list {
		if err := t.publish(ctx, t.name, r.json); err != nil {
			return err
		}
	}
	return nil
}

func (t *topic) close() {}
