package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges"
)

// WithOptions adds options for the connector's clients.
func WithOptions(c bridges.Connector, opts ...kgo.Opt) {
	k := c.(*connector)
	k.options = append(k.options, opts...)
}

// Client returns the client of a connector.
func Client(c bridges.Connector) *kgo.Client { return c.(*connector).client }
