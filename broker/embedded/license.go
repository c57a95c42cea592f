package embedded

import (
	"context"

	"signalbox/broker"
)

// GetLicense returns a license for all features that never expires.
func (b *Broker) GetLicense(context.Context) (broker.License, error) {
	l := broker.License{Plan: "open-source", Edition: "embedded", Features: []string{}}
	for _, c := range b.Capabilities() {
		l.Features = append(l.Features, string(c))
	}
	return l, nil
}
