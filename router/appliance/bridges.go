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

// openBridges opens what bridges keep, of all brokers. The configurations are sealed
// by the vault that seal will be given.
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

// clusterSecrets are what the embedded broker keeps as a node of a cluster.
type clusterSecrets struct{ dataDir string }

// HasSecrets reports whether that is sealed.
func (c clusterSecrets) HasSecrets(ctx context.Context) (bool, error) {
	return embedded.HasClusterSecrets(ctx, c.dataDir)
}

// lateSealer seals with a vault that is opened only when it is known whether
// anything was sealed before.
type lateSealer struct{ vault *vault.Vault }

// Seal is the vault's.
func (l *lateSealer) Seal(plain, aad []byte) []byte { return l.vault.Seal(plain, aad) }

// Unseal is the vault's.
func (l *lateSealer) Unseal(sealed, aad []byte) ([]byte, error) { return l.vault.Unseal(sealed, aad) }

// own is what this service keeps of its own for brokers.
func (a *Appliance) own() []handlers.Own {
	return []handlers.Own{{Name: "streams", Forget: a.streams.Forget}, {Name: "bridges", Forget: a.bridges.Forget}}
}
