package embedded

import (
	"context"
	"path/filepath"

	"signalbox/broker/embedded/cluster"
)

// StoredCluster is what a data directory has of the broker as a node of a cluster.
type StoredCluster = cluster.Stored

// ReadCluster reads that, also while a broker runs on the data directory.
func ReadCluster(ctx context.Context, dataDir string) (StoredCluster, error) {
	return cluster.ReadStored(ctx, filepath.Join(dataDir, clusterDir))
}

// HasClusterSecrets reports whether the data directory contains a cluster node's key that
// only the sealer that sealed it can open.
func HasClusterSecrets(ctx context.Context, dataDir string) (bool, error) {
	return cluster.IsSealed(ctx, filepath.Join(dataDir, clusterDir))
}

// ResealCluster seals that key again, while no broker runs on the data directory.
func ResealCluster(ctx context.Context, dataDir string, reseal func(sealed, aad []byte) ([]byte, error)) (int, error) {
	return cluster.Reseal(ctx, filepath.Join(dataDir, clusterDir), reseal)
}
