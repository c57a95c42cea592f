package embedded

import (
	"context"

	"signalbox/broker"
)

// GetLicense tells that everything is there for everybody, for ever.
func (b *Broker) GetLicense(context.Context) (broker.License, error) {
	l := broker.License{Plan: "open-source", Edition: "embedded", Features: []string{}}
	for _, c := range b.Capabilities() {
		l.Features = append(l.Features, string(c))
	}
	return l, nil
}
