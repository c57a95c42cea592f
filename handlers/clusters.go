package handlers

import (
	"context"

	"signalbox/broker"
)

// ClusterPath names a cluster of a project.
type ClusterPath struct {
	ProjectPath
	ClusterID string `path:"clusterId" doc:"Id of the cluster."`
}

// ListClustersRequest names a project.
type ListClustersRequest struct{ ProjectPath }

// ListClusters lists the clusters of a project.
func (a *API) ListClusters(ctx context.Context, r *ListClustersRequest) (List[broker.Cluster], error) {
	clusters, err := a.Clusters.ListClusters(ctx, r.ProjectID)
	return listOf(clusters), err
}

// GetClusterRequest names a cluster.
type GetClusterRequest struct{ ClusterPath }

// GetCluster gives a cluster with its nodes.
func (a *API) GetCluster(ctx context.Context, r *GetClusterRequest) (broker.Cluster, error) {
	return a.Clusters.GetCluster(ctx, r.ProjectID, r.ClusterID)
}

// BrokerNode is a broker that becomes a node of a new cluster.
type BrokerNode struct {
	_              struct{}      `strict:"true"`
	BrokerID       string        `json:"broker_id" required:"true"`
	URL            string        `json:"url" required:"true"`
	NodeID         int           `json:"nodeid" required:"true" min:"1"`
	Name           string        `json:"name" required:"true"`
	Address        string        `json:"address" required:"true"`
	Port           int           `json:"port" required:"true" min:"1" max:"65535"`
	Username       string        `json:"username"`
	Password       broker.Secret `json:"password"`
	ClientCertFile string        `json:"client_cert_file"`
	ClientCert     string        `json:"client_cert"`
	ClientKeyFile  string        `json:"client_key_file"`
	ClientKey      broker.Secret `json:"client_key"`
	CACertFile     string        `json:"ca_cert_file"`
	CACert         string        `json:"ca_cert"`
}

func (n BrokerNode) ref() broker.ClusterNodeRef {
	return broker.ClusterNodeRef{
		BrokerID: n.BrokerID, NodeID: n.NodeID, Name: n.Name, Address: n.Address, Port: n.Port,
		Target: broker.Target{ID: n.BrokerID, URL: n.URL, Username: n.Username, Password: n.Password,
			TLS: broker.TLS{CACert: n.CACert, ClientCert: n.ClientCert, ClientKey: n.ClientKey, Verify: true}},
	}
}

// CreateClusterRequest asks for a new cluster.
type CreateClusterRequest struct {
	ProjectPath
	Body struct {
		ClusterName string       `json:"clustername" required:"true" minlen:"1"`
		SyncMode    string       `json:"syncmode" required:"true" enum:"full|dynsec|hp"`
		Nodes       []BrokerNode `json:"nodes" required:"true" minlen:"1"`
	}
}

// CreateCluster makes a cluster of brokers of the project.
func (a *API) CreateCluster(ctx context.Context, r *CreateClusterRequest) (broker.ClusterConnection, error) {
	spec := broker.ClusterSpec{ClusterName: r.Body.ClusterName, SyncMode: r.Body.SyncMode}
	for _, n := range r.Body.Nodes {
		spec.Nodes = append(spec.Nodes, n.ref())
	}
	return a.Clusters.CreateCluster(ctx, r.ProjectID, spec)
}

// DeleteClusterRequest names a cluster.
type DeleteClusterRequest struct {
	ClusterPath
	ClusterName string `query:"clustername" doc:"Name of the cluster to delete."`
	Purge       bool   `query:"purge" default:"false" doc:"True forgets the cluster even if it could not be dissolved."`
}

// Deleted tells that something was deleted.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// DeleteCluster dissolves a cluster.
func (a *API) DeleteCluster(ctx context.Context, r *DeleteClusterRequest) (Deleted, error) {
	err := a.Clusters.DeleteCluster(ctx, r.ProjectID, r.ClusterID, r.ClusterName, r.Purge)
	return Deleted{Deleted: err == nil}, err
}

// DeleteClustersRequest names a project.
type DeleteClustersRequest struct {
	ProjectPath
	Purge bool `query:"purge" default:"false" doc:"True forgets clusters even if they could not be dissolved."`
}

// ClusterOutcome is the outcome of an operation for one of several clusters.
type ClusterOutcome struct {
	ClusterID   string             `json:"clusterId"`
	ClusterName string             `json:"clustername"`
	Status      int                `json:"status"`
	Deleted     *bool              `json:"deleted,omitempty"`
	Data        *broker.RaftStatus `json:"data,omitempty"`
	Error       *ErrorObject       `json:"error,omitempty"`
}

// outcomes converts the results; deleting adds the flag.
func outcomes(results []broker.ClusterResult, deleting bool) []ClusterOutcome {
	list := make([]ClusterOutcome, 0, len(results))
	for _, r := range results {
		o := ClusterOutcome{ClusterID: r.ClusterID, ClusterName: r.ClusterName, Status: 200, Data: r.Data}
		if r.Err != nil {
			e := ErrorFor(r.Err)
			o.Status, o.Error = e.Status, e.Object()
		}
		if deleting {
			deleted := r.Err == nil
			o.Deleted = &deleted
		}
		list = append(list, o)
	}
	return list
}

// DeleteClusters dissolves every cluster of a project.
func (a *API) DeleteClusters(ctx context.Context, r *DeleteClustersRequest) ([]ClusterOutcome, error) {
	results, err := a.Clusters.DeleteClusters(ctx, r.ProjectID, r.Purge)
	return outcomes(results, true), err
}

// NodeReference names a node that joins or leaves.
type NodeReference struct {
	BrokerID       string `json:"broker_id"`
	URL            string `json:"url"`
	Username       string `json:"username"`
	ClientCertFile string `json:"client_cert_file"`
	ClientKeyFile  string `json:"client_key_file"`
	CACertFile     string `json:"ca_cert_file"`
	Name           string `json:"name"`
	Address        string `json:"address"`
	NodeID         int    `json:"nodeid" min:"0"`
	Port           int    `json:"port" min:"0" max:"65535"`
}

func (n NodeReference) ref() broker.ClusterNodeRef {
	return broker.ClusterNodeRef{BrokerID: n.BrokerID, NodeID: n.NodeID, Name: n.Name, Address: n.Address, Port: n.Port,
		Target: broker.Target{ID: n.BrokerID, URL: n.URL, Username: n.Username, TLS: broker.TLS{Verify: true}}}
}

// JoinClusterRequest adds a node.
type JoinClusterRequest struct {
	ClusterPath
	Body NodeReference
}

// Validate asks for what a node needs.
func (r *JoinClusterRequest) Validate() []FieldError {
	var bad []FieldError
	if r.Body.BrokerID == "" && r.Body.URL == "" {
		bad = append(bad, FieldError{"body.broker_id", "broker_id or url is required"})
	}
	if r.Body.NodeID < 1 {
		bad = append(bad, FieldError{"body.nodeid", "must be at least 1"})
	}
	if r.Body.Address == "" {
		bad = append(bad, FieldError{"body.address", "is required"})
	}
	if r.Body.Port < 1 {
		bad = append(bad, FieldError{"body.port", "must be at least 1"})
	}
	return bad
}

// JoinCluster adds a node to a cluster.
func (a *API) JoinCluster(ctx context.Context, r *JoinClusterRequest) error {
	return a.Clusters.JoinCluster(ctx, r.ProjectID, r.ClusterID, r.Body.ref())
}

// LeaveClusterRequest removes a node.
type LeaveClusterRequest struct {
	ClusterPath
	Body NodeReference
}

// Validate asks for what names the node.
func (r *LeaveClusterRequest) Validate() []FieldError {
	if r.Body.BrokerID == "" && r.Body.NodeID < 1 {
		return []FieldError{{"body.nodeid", "nodeid or broker_id is required"}}
	}
	return nil
}

// LeaveCluster removes a node from a cluster.
func (a *API) LeaveCluster(ctx context.Context, r *LeaveClusterRequest) error {
	return a.Clusters.LeaveCluster(ctx, r.ProjectID, r.ClusterID, r.Body.ref())
}

// GetRaftStatusRequest names a project.
type GetRaftStatusRequest struct{ ProjectPath }

// GetRaftStatus gives the state of consensus of each cluster of a project.
func (a *API) GetRaftStatus(ctx context.Context, r *GetRaftStatusRequest) ([]ClusterOutcome, error) {
	results, err := a.Clusters.GetRaftStatus(ctx, r.ProjectID)
	return outcomes(results, false), err
}
