package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/clusters"
	"signalbox/db"
)

// ClusterRows returns what [clusters.New] needs: the stored clusters, and the
// brokers that are their nodes.
func (c *Connections) ClusterRows() clusters.Rows { return clusterRows{c} }

type clusterRows struct{ *Connections }

// Clusters lists the clusters of a project.
func (r clusterRows) Clusters(ctx context.Context, projectID string) ([]clusters.Cluster, error) {
	rows, err := r.DB.ListClusters(ctx, projectID)
	if err != nil {
		return nil, err
	}
	all := make([]clusters.Cluster, len(rows))
	for i, row := range rows {
		if all[i], err = r.cluster(ctx, row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Cluster finds a cluster of a project.
func (r clusterRows) Cluster(ctx context.Context, projectID, clusterID string) (clusters.Cluster, error) {
	row, err := r.DB.GetCluster(ctx, projectID, clusterID)
	if err != nil {
		return clusters.Cluster{}, notFound(err, "the project has no cluster with this id")
	}
	return r.cluster(ctx, row)
}

func (r clusterRows) cluster(ctx context.Context, row db.Cluster) (clusters.Cluster, error) {
	c := clusters.Cluster{ID: row.ID, ProjectID: row.ProjectID, Name: row.Name, SyncMode: row.SyncMode}
	for _, n := range row.Nodes {
		node, err := r.node(ctx, row.ProjectID, n)
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	return c, nil
}

// node describes a stored node. The URL is the current one of its connection.
func (r clusterRows) node(ctx context.Context, projectID string, row db.ClusterNode) (clusters.Node, error) {
	n := clusters.Node{Own: row.Own, URL: row.URL, ClusterNodeRef: broker.ClusterNodeRef{
		BrokerID: row.BrokerID, NodeID: row.NodeID, Name: row.Name, Address: row.Address, Port: row.Port}}
	if !row.Own {
		switch b, err := r.DB.GetBroker(ctx, projectID, row.BrokerID); {
		case err == nil:
			n.URL, n.Inside = b.URL, overCluster(b) != ""
		case !errors.Is(err, db.ErrNotFound):
			return n, err
		}
		return n, nil
	}
	target, err := r.target(db.Broker{ID: row.ID, Rev: 1, URL: row.URL, Username: row.Username, Secrets: row.Secrets,
		VerifyCACert: row.VerifyCACert, CACert: row.CACert, ClientCert: row.ClientCert, Fingerprint: row.Fingerprint})
	n.Target = target
	return n, err
}

// Create stores a cluster.
func (r clusterRows) Create(ctx context.Context, c clusters.Cluster) (string, error) {
	row := db.Cluster{ID: newID(), ProjectID: c.ProjectID, Name: c.Name, SyncMode: c.SyncMode, CreatedAt: r.Now()}
	for _, n := range c.Nodes {
		node, err := r.nodeRow(row.ID, n)
		if err != nil {
			return "", err
		}
		row.Nodes = append(row.Nodes, node)
	}
	noteCreated(ctx, row.ID, "", "")
	err := r.DB.CreateCluster(ctx, row)
	return row.ID, exists(err, "a cluster with this name, or with one of these nodes, already exists")
}

// nodeRow returns the row of a node. The secrets of its own target are sealed like
// those of a connection.
func (r clusterRows) nodeRow(clusterID string, n clusters.Node) (db.ClusterNode, error) {
	row := db.ClusterNode{ID: newID(), ClusterID: clusterID, NodeID: n.NodeID, BrokerID: n.BrokerID, Name: n.Name,
		Address: n.Address, Port: n.Port, Own: n.Own, URL: n.URL}
	if !n.Own {
		return row, nil
	}
	t := n.Target
	row.ID, row.Username, row.VerifyCACert, row.CACert, row.ClientCert = t.ID, t.Username, t.TLS.Verify, t.TLS.CACert, t.TLS.ClientCert
	row.Fingerprint = t.TLS.Fingerprint
	if t.Password == "" && t.TLS.ClientKey == "" {
		return row, nil
	}
	plain, err := json.Marshal(sealed{Password: string(t.Password), ClientKey: string(t.TLS.ClientKey)})
	if err != nil {
		return row, fmt.Errorf("write the secrets of a node: %w", err)
	}
	row.Secrets = r.Vault.Seal(plain, []byte(row.ID))
	return row, nil
}

// AddNode stores one more node of a cluster.
func (r clusterRows) AddNode(ctx context.Context, clusterID string, n clusters.Node) error {
	row, err := r.nodeRow(clusterID, n)
	if err != nil {
		return err
	}
	return exists(r.DB.AddClusterNode(ctx, row), "the node's number, address or broker is taken")
}

// RemoveNode deletes a node.
func (r clusterRows) RemoveNode(ctx context.Context, clusterID string, nodeID int) error {
	return r.DB.DeleteClusterNode(ctx, clusterID, nodeID)
}

// Delete deletes a cluster.
func (r clusterRows) Delete(ctx context.Context, projectID, clusterID string) error {
	return r.DB.DeleteCluster(ctx, projectID, clusterID)
}

// Resolve returns the connection of a node in the project. A broker that is not one of
// the project's is reached by its URL.
func (r clusterRows) Resolve(ctx context.Context, projectID string, ref broker.ClusterNodeRef) (clusters.Node, error) {
	n := clusters.Node{ClusterNodeRef: ref, Own: true, URL: ref.Target.URL}
	row, err := r.DB.GetBroker(ctx, projectID, ref.BrokerID)
	switch {
	case err == nil:
		n.Own, n.URL = false, row.URL
		return n, nil
	case !errors.Is(err, db.ErrNotFound):
		return n, err
	case n.URL == "":
		return n, &broker.Error{Kind: broker.Invalid, Op: "cluster", Msg: "the project has no such broker",
			Fields: []broker.Field{{Path: "broker_id", Msg: "the project has no broker with this id; give the url of any other"}}}
	}
	return n, nil
}

// Reach returns the live broker of a node. It looks the connection up, in the cache of
// package db: it may have been edited or deleted since the change of the cluster began.
func (r clusterRows) Reach(ctx context.Context, projectID string, n clusters.Node) (clusters.Asker, error) {
	b, err := r.nodeBroker(ctx, projectID, n)
	if err != nil {
		return nil, err
	}
	asker, ok := b.(clusters.Asker)
	if !ok {
		return nil, broker.NotSupported("cluster", broker.CapCluster)
	}
	return asker, nil
}

func (r clusterRows) nodeBroker(ctx context.Context, projectID string, n clusters.Node) (broker.Broker, error) {
	if n.Own {
		return r.Brokers.Get(n.Target)
	}
	row, err := r.DB.GetBroker(ctx, projectID, n.BrokerID)
	if errors.Is(err, db.ErrNotFound) {
		return nil, &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: "the node's broker connection was deleted", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return r.connect(row)
}

// Release closes the connection to a broker that was only reached as a node.
func (r clusterRows) Release(ctx context.Context, n clusters.Node) {
	if n.Own {
		r.drop(ctx, n.Target.ID)
	}
}
