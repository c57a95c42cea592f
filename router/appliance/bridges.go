package appliance

import (
	"context"
	"time"

	"signalbox/broker/bridges"
	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/storage"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/handlers/vault"
)

// openBridges opens the bridges of all brokers. Their configurations are sealed by the
// vault.
func (a *Appliance) openBridges(ctx context.Context, path string, v *vault.Vault) error {
	c := a.cfg.Bridges
	s, err := bridgestore.Open(ctx, path, bridgestore.Options{
		MaxBytes: c.MaxBytes, Durability: storage.Durability(c.Durability), Seal: v, Log: a.log, Now: time.Now, Clock: a.clock,
	})
	if err != nil {
		return err
	}
	a.undo.addBounded(s.Close)
	a.shared.definitions.bridges = s
	a.bridges = bridges.NewHost(s, bridgeKinds(), a.log)
	a.bridges.Registry = registry{a.shared.definitions, db.BridgeDefinition}
	a.bridges.Dial, a.bridges.Now = a.outbound.DialContext, a.clock.Now
	a.addPart("bridges", a.bridges.Healthy)
	a.metrics = append(a.metrics, bridgeMetrics{a.bridges})
	return nil
}

// brokerData returns what this service stores for brokers itself.
func (a *Appliance) brokerData() []handlers.BrokerData {
	return []handlers.BrokerData{
		{Name: "streams", Forget: a.streams.Forget}, {Name: "bridges", Forget: a.bridges.Forget},
		{Name: "metric history", Forget: a.history.Forget},
	}
}
