package embedded

import (
	"context"
	"slices"

	"signalbox/broker"
)

// SysTopics gives the broker's own $SYS topics as they are now and the samples
// of the last ten minutes, oldest first.
func (b *Broker) SysTopics(context.Context) (now broker.SysTopics, history []broker.SysTopics, err error) {
	now = broker.SysTopics{Topics: b.sys.figures(), Date: b.now().UnixMilli()}
	b.sys.mu.Lock()
	defer b.sys.mu.Unlock()
	return now, slices.Clone(b.sys.history), nil
}

// GetLicense tells that everything is there for everybody, for ever.
func (b *Broker) GetLicense(context.Context) (broker.License, error) {
	l := broker.License{Plan: "open-source", Edition: "embedded", Features: []string{}}
	for _, c := range capabilities {
		l.Features = append(l.Features, string(c))
	}
	return l, nil
}
