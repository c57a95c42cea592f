package db

import (
	"context"
	"database/sql"
	"time"
)

// Cluster is a cluster of brokers that a project knows, with its nodes in the
// order of their numbers.
type Cluster struct {
	ID        string
	ProjectID string
	Name      string
	SyncMode  string // "full", "dynsec" or "hp"
	CreatedAt time.Time
	Nodes     []ClusterNode
}

// ClusterNode is a broker of a cluster. It is reached by the broker connection
// BrokerID or, where Own is set, by what stands here; BrokerID is then any text.
// Secrets are sealed by the caller, nil for none.
type ClusterNode struct {
	ID           string
	ClusterID    string
	NodeID       int // its number in the cluster, from 1
	BrokerID     string
	Name         string
	Address      string // of the cluster port, with Port
	Port         int
	Own          bool
	URL          string
	Username     string
	Secrets      []byte
	VerifyCACert bool
	CACert       string // certificates are PEM
	ClientCert   string
	Fingerprint  string // of the only certificate to be accepted, "" for none
}

func scanCluster(row scanner) (c Cluster, err error) {
	err = row.Scan(&c.ID, &c.ProjectID, &c.Name, &c.SyncMode, (*millis)(&c.CreatedAt))
	c.Nodes = []ClusterNode{}
	return c, err
}

func scanClusterNode(row scanner) (n ClusterNode, err error) {
	err = row.Scan(&n.ID, &n.ClusterID, &n.NodeID, &n.BrokerID, &n.Name, &n.Address, &n.Port, &n.Own,
		&n.URL, &n.Username, &n.Secrets, &n.VerifyCACert, &n.CACert, &n.ClientCert, &n.Fingerprint)
	return n, err
}

// CreateCluster stores a cluster with its nodes. ErrExists: an id, the name in
// its project, or a number or address in the cluster is taken, or a broker
// connection is a node already. ErrNotFound: no such project.
func (d *DB) CreateCluster(ctx context.Context, c Cluster) error {
	const q = "INSERT INTO clusters (id, project_id, name, sync_mode, created_at) VALUES (?, ?, ?, ?, ?)"
	return d.write(ctx, "create cluster", func(tx *writeTx) error {
		if _, err := tx.ExecContext(ctx, q, c.ID, c.ProjectID, c.Name, c.SyncMode, millis(c.CreatedAt)); err != nil {
			return err
		}
		for _, n := range c.Nodes {
			n.ClusterID = c.ID
			if err := d.insertClusterNode(ctx, tx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// insertClusterNode stores a node. What was stored of its connection's cluster is
// replaced by what is known.
func (d *DB) insertClusterNode(ctx context.Context, tx *writeTx, n ClusterNode) (err error) {
	const known = "UPDATE brokers SET ha = 0, cluster_mode = '' WHERE id = ?"
	const q = `
		INSERT INTO cluster_nodes (id, cluster_id, node_id, broker_id, name, address, port, own,
			url, username, secrets, verify_ca_cert, ca_cert, client_cert, server_fingerprint)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	if n.Secrets, err = d.current(ctx, tx, n.Secrets, n.ID); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, q, n.ID, n.ClusterID, n.NodeID, n.BrokerID, n.Name, n.Address, n.Port, n.Own,
		n.URL, n.Username, n.Secrets, n.VerifyCACert, n.CACert, n.ClientCert, n.Fingerprint)
	if err == nil && !n.Own {
		_, err = tx.ExecContext(ctx, known, n.BrokerID)
	}
	return err
}

// GetCluster finds a cluster of a project. ErrNotFound if there is none.
func (d *DB) GetCluster(ctx context.Context, projectID, id string) (c Cluster, err error) {
	const q = "SELECT id, project_id, name, sync_mode, created_at FROM clusters WHERE id = ? AND project_id = ?"
	err = d.read(ctx, "get cluster", func(tx *sql.Tx) error {
		if c, err = scanCluster(tx.QueryRowContext(ctx, q, id, projectID)); err != nil {
			return err
		}
		c.Nodes, err = clusterNodes(ctx, tx, "n.cluster_id = ?", id)
		return err
	})
	return c, err
}

// ListClusters lists the clusters of a project, oldest first.
func (d *DB) ListClusters(ctx context.Context, projectID string) (all []Cluster, err error) {
	const q = `
		SELECT id, project_id, name, sync_mode, created_at FROM clusters
		WHERE project_id = ? ORDER BY created_at, id`
	err = d.read(ctx, "list clusters", func(tx *sql.Tx) error {
		if all, err = collect(ctx, tx, scanCluster, q, projectID); err != nil {
			return err
		}
		nodes, err := clusterNodes(ctx, tx, "n.cluster_id IN (SELECT id FROM clusters WHERE project_id = ?)", projectID)
		if err != nil {
			return err
		}
		of := map[string][]ClusterNode{}
		for _, n := range nodes {
			of[n.ClusterID] = append(of[n.ClusterID], n)
		}
		for i := range all {
			all[i].Nodes = append(all[i].Nodes, of[all[i].ID]...)
		}
		return nil
	})
	return all, err
}

// clusterNodes reads the nodes that meet a condition.
func clusterNodes(ctx context.Context, tx queryer, condition, arg string) ([]ClusterNode, error) {
	return collect(ctx, tx, scanClusterNode, `
		SELECT n.id, n.cluster_id, n.node_id, n.broker_id, n.name, n.address, n.port, n.own,
			n.url, n.username, n.secrets, n.verify_ca_cert, n.ca_cert, n.client_cert, n.server_fingerprint
		FROM cluster_nodes n WHERE `+condition+" ORDER BY n.cluster_id, n.node_id", arg)
}

// AddClusterNode stores one more node of n.ClusterID. ErrExists: its number or
// address in the cluster is taken, or its broker connection is a node already.
// ErrNotFound: no such cluster.
func (d *DB) AddClusterNode(ctx context.Context, n ClusterNode) error {
	return d.write(ctx, "add cluster node", func(tx *writeTx) error { return d.insertClusterNode(ctx, tx, n) })
}

// DeleteClusterNode removes a node by its number. ErrNotFound if there is none.
func (d *DB) DeleteClusterNode(ctx context.Context, clusterID string, nodeID int) error {
	const q = "DELETE FROM cluster_nodes WHERE cluster_id = ? AND node_id = ?"
	return d.write(ctx, "delete cluster node", func(tx *writeTx) error {
		return affected(tx.ExecContext(ctx, q, clusterID, nodeID))
	})
}

// DeleteCluster removes a cluster with its nodes. ErrNotFound: no such cluster in
// that project.
func (d *DB) DeleteCluster(ctx context.Context, projectID, id string) error {
	const q = "DELETE FROM clusters WHERE id = ? AND project_id = ?"
	return d.write(ctx, "delete cluster", func(tx *writeTx) error {
		return affected(tx.ExecContext(ctx, q, id, projectID))
	})
}

// HasSecrets reports whether anything that is stored was sealed by a caller, as in any database that
// is shared.
func (d *DB) HasSecrets(ctx context.Context) (bool, error) {
	if d.IsOutdated() {
		return true, nil
	}
	const q = `
		SELECT EXISTS (
			SELECT 1 FROM brokers WHERE length(secrets) > 0
			UNION ALL SELECT 1 FROM cluster_nodes WHERE length(secrets) > 0
			UNION ALL SELECT 1 FROM definitions WHERE kind = 'bridge'
			UNION ALL SELECT 1 FROM shared_keys)`
	found, err := exists(ctx, d.ro, q)
	return found, wrap("look for secrets", err)
}
