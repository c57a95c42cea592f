package appliance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/handlers"
)

// startBroker opens and starts the broker in this process, unless it is disabled.
func (a *Appliance) startBroker(ctx context.Context) error {
	c := a.cfg.Broker
	if !c.Enabled {
		return nil
	}
	c.Version, c.Streams, c.Bridges, c.Cluster = a.program.Version, a.streams, a.bridges, a.cfg.Cluster
	c.Clock, c.SlowCommand = a.clock, a.cfg.Log.Slow
	c.Cluster.Seal, c.Cluster.Allowed = a.machine, a.outbound.Control
	if c.Cluster.ShareData {
		c.Shared, c.Definitions = a.shared, embeddedDefinitions{a.shared}
	}
	c.KeepPassword = func(password broker.Secret) error {
		return a.first.keep("MQTT administrator", c.AdminUsername, string(password))
	}
	c.ControlAudit, c.AcceptHTTP = a.auditControl, a.acceptNode
	b, err := embedded.New(ctx, c, a.cfg.DataDir, a.log)
	if err != nil {
		return err
	}
	a.broker = b
	a.undo.addBounded(b.Close)
	a.undo.add(a.adoption.end)
	a.addPart("broker", b.Healthy)
	a.metrics = append(a.metrics, b.Collector(), clusterMetrics{b}, meshMetrics{b}, sessionMetrics{b})
	if err := b.Start(ctx); err != nil {
		return err
	}
	a.Broker = brokerURLs(c, b.Addrs())
	return nil
}

// adoptBroker makes the broker in this process one of a project.
func (a *Appliance) adoptBroker(ctx context.Context) error {
	if a.broker == nil {
		return nil
	}
	defer a.adoption.end() //nolint:errcheck // it is nil
	a.adoption.api.Store(a.API)
	return a.API.AdoptEmbedded(ctx, a.broker, a.Broker[0])
}

// adoption is the time until the broker in this process has a project.
type adoption struct {
	api   atomic.Pointer[handlers.API] // nil until then, or if it will not have one
	ended chan struct{}
	once  sync.Once
}

func (a *adoption) end() error {
	a.once.Do(func() { close(a.ended) })
	return nil
}

// auditControl records the control requests of clients of the broker in this process.
func (a *Appliance) auditControl(q broker.ControlRequest) (end func([]broker.ControlOutcome), err error) {
	if a.shared.IsOutdated() {
		return a.auditOutdated(q)
	}
	<-a.adoption.ended
	api := a.adoption.api.Load()
	if api == nil {
		return nil, errors.New("the service stops")
	}
	return api.AuditControl(context.Background(), q)
}

// brokerURLs returns the URLs for MQTT clients, with the addresses as bound.
func brokerURLs(c embedded.Config, bound []string) []string {
	var protocols, urls []string
	if c.Listen != "" {
		protocols = append(protocols, "mqtt")
	}
	for _, l := range c.Listeners {
		protocols = append(protocols, l.Protocol)
	}
	for i, address := range bound {
		urls = append(urls, protocols[i]+"://"+address)
	}
	return urls
}
