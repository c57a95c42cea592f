package appliance

import (
	"context"
	"time"

	"signalbox/broker/bridges"
	bridgestore "signalbox/broker/bridges/store"
	"signalbox/broker/embedded"
	"signalbox/broker/storage"
	"signalbox/handlers"
	"signalbox/handlers/vault"
)

// openBridges opens the bridges of all brokers. Their configurations are sealed by the
// vault that seal gets later.
func (a *Appliance) openBridges(ctx context.Context, path string, seal *lateSealer) (*bridgestore.Store, error) {
	c := a.cfg.Bridges
	s, err := bridgestore.Open(ctx, path, bridgestore.Options{
		MaxBytes: c.MaxBytes, Durability: storage.Durability(c.Durability), Seal: seal, Log: a.log, Now: time.Now, Clock: a.clock,
	})
	if err != nil {
		return nil, err
	}
	a.undo.addBounded(s.Close)
	a.bridges = bridges.NewHost(s, bridgeKinds(), a.log)
	a.bridges.Dial, a.bridges.Now = a.outbound.DialContext, a.clock.Now
	a.ready = append(a.ready, a.bridges.Healthy)
	a.metrics = append(a.metrics, bridgeMetrics{a.bridges})
	return s, nil
}

// clusterSecrets are the embedded broker's secrets as a node of a cluster.
type clusterSecrets struct{ dataDir string }

// HasSecrets reports whether there are any.
func (c clusterSecrets) HasSecrets(ctx context.Context) (bool, error) {
	return embedded.HasClusterSecrets(ctx, c.dataDir)
}

// lateSealer seals with a vault that is opened only after it is known whether there are
// sealed secrets.
type lateSealer struct{ vault *vault.Vault }

// Seal calls the vault.
func (l *lateSealer) Seal(plain, aad []byte) []byte { return l.vault.Seal(plain, aad) }

// Unseal calls the vault.
func (l *lateSealer) Unseal(sealed, aad []byte) ([]byte, error) { return l.vault.Unseal(sealed, aad) }

// brokerData returns what this service stores for brokers itself.
func (a *Appliance) brokerData() []handlers.BrokerData {
	return []handlers.BrokerData{{Name: "streams", Forget: a.streams.Forget}, {Name: "bridges", Forget: a.bridges.Forget}}
}
