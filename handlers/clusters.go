package handlers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"signalbox/broker"
)

// ClusterPath names a cluster of a project.
type ClusterPath struct {
	ProjectPath
	ClusterID string `path:"clusterId" doc:"Id of the cluster."`
}

// Resolve finds the cluster's record.
func (p *ClusterPath) Resolve(ctx context.Context, a *API) error {
	_, err := a.DB.GetCluster(ctx, p.ProjectID, p.ClusterID)
	return notFound(err, "the project has no cluster with this id")
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

// GetCluster returns a cluster with its nodes.
func (a *API) GetCluster(ctx context.Context, r *GetClusterRequest) (broker.Cluster, error) {
	return a.Clusters.GetCluster(ctx, r.ProjectID, r.ClusterID)
}

// BrokerNode is a broker that becomes a node of a new cluster.
type BrokerNode struct {
	_              struct{}      `strict:"true"`
	BrokerID       string        `json:"broker_id" required:"true" doc:"Id of a broker connection of the project, which is then used. If the project has none with this id, the broker is reached by url and the members below." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	URL            string        `json:"url" required:"true" minlen:"1" doc:"URL of the broker, as in createBroker." example:"mqtts://10.0.0.1:8883"`
	NodeID         int           `json:"nodeid" required:"true" min:"1" max:"2147483647" doc:"Number of the node, unique in the cluster." example:"1"`
	Name           string        `json:"name" required:"true" doc:"Name of the node, unique in the cluster unless it is empty." example:"n1"`
	Address        string        `json:"address" required:"true" minlen:"1" doc:"Address of the node's cluster port, as the other nodes reach it." example:"10.0.0.1"`
	Port           int           `json:"port" required:"true" min:"1" max:"65535" doc:"Cluster port of the node." example:"7001"`
	Username       string        `json:"username" doc:"Username at the broker; default none." example:"admin"`
	Password       broker.Secret `json:"password" doc:"Password at the broker; default none." example:"correct-horse-battery"`
	ClientCertFile string        `json:"client_cert_file" doc:"Name of a PEM file in the directory certs of the data directory. It is read once." example:"-"`
	ClientCert     string        `json:"client_cert" doc:"Client certificate and its chain, as PEM; default none." example:"-"`
	ClientKeyFile  string        `json:"client_key_file" doc:"Name of a PEM file in the directory certs of the data directory. It is read once." example:"-"`
	ClientKey      broker.Secret `json:"client_key" doc:"Key of the client certificate, as PEM; default none." example:"-"`
	CACertFile     string        `json:"ca_cert_file" doc:"Name of a PEM file in the directory certs of the data directory. It is read once." example:"plant-ca.pem"`
	CACert         string        `json:"ca_cert" doc:"Certificate authorities with which the broker is verified, as PEM; default those of the system." example:"-"`
	Fingerprint    string        `json:"server_fingerprint" doc:"SHA-256 fingerprint of the only certificate that the broker may present, as in createBroker; default none." example:"-"`
}

func (n BrokerNode) ref() broker.ClusterNodeRef {
	return broker.ClusterNodeRef{BrokerID: n.BrokerID, NodeID: n.NodeID, Name: n.Name, Address: n.Address, Port: n.Port}
}

// connection returns how the node's broker is reached, as a connection that is not
// stored.
func (n BrokerNode) connection() NewConnectionBody {
	c := NewConnectionBody{Name: n.Name, URL: n.URL}
	c.Username, c.Password = given(n.Username), given(n.Password)
	c.ClientCertFile, c.ClientCert = given(n.ClientCertFile), given(n.ClientCert)
	c.ClientKeyFile, c.ClientKey = given(n.ClientKeyFile), given(n.ClientKey)
	c.CACertFile, c.CACert, c.Fingerprint = given(n.CACertFile), given(n.CACert), given(n.Fingerprint)
	return c
}

// given returns a member that is absent if it is empty.
func given[T ~string](v T) Opt[T] { return Opt[T]{Value: v, Set: v != ""} }

// nodeTarget checks how a node's broker is reached, and returns the target, with a
// unique id. The error names fields with the prefix.
func (a *API) nodeTarget(projectID, prefix string, c NewConnectionBody) (broker.Target, error) {
	bad := c.check(a.CertDir)
	if len(bad) > 0 {
		return broker.Target{}, Invalid(withPrefix(prefix, bad)...)
	}
	row, err := a.newRow(projectID, c)
	if err == nil {
		t, err := a.target(row)
		t.TopicTree = false
		return t, err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if fields, ok := e.Info["errors"].([]FieldError); ok {
			return broker.Target{}, Invalid(withPrefix(prefix, fields)...)
		}
	}
	return broker.Target{}, err
}

// withPrefix returns the fields with a prefix.
func withPrefix(prefix string, fields []FieldError) []FieldError {
	moved := make([]FieldError, len(fields))
	for i, f := range fields {
		moved[i] = FieldError{prefix + strings.TrimPrefix(f.Field, "body."), f.Message}
	}
	return moved
}

// CreateClusterRequest describes a new cluster.
type CreateClusterRequest struct {
	ProjectPath
	Body struct {
		ClusterName string       `json:"clustername" required:"true" minlen:"1" doc:"Name of the cluster." example:"plant"`
		SyncMode    string       `json:"syncmode" required:"true" enum:"full|dynsec|hp" doc:"Mode: dynsec shares access control, hp also retained messages with messages forwarded between nodes, full everything." example:"full"`
		Nodes       []BrokerNode `json:"nodes" required:"true" minlen:"1" doc:"Nodes, at most 7. The state of the first one becomes that of the cluster. Numbers, names, addresses and broker ids must be unique."`
	}
}

// maxNodes is the maximum size of a cluster, fewNodes the minimum to survive the
// failure of a node.
const (
	maxNodes = 7
	fewNodes = 3
)

// Validate checks that no two nodes are the same.
func (r *CreateClusterRequest) Validate() []FieldError {
	var bad []FieldError
	if len(r.Body.Nodes) > maxNodes {
		bad = append(bad, FieldError{"body.nodes", fmt.Sprintf("must be at most %d", maxNodes)})
	}
	unique := func(member string, of func(BrokerNode) string) {
		first := map[string]int{}
		for i, n := range r.Body.Nodes {
			key := of(n)
			if at, taken := first[key]; taken && key != "" {
				bad = append(bad, FieldError{fmt.Sprintf("body.nodes[%d].%s", i, member), fmt.Sprintf("is that of nodes[%d] too", at)})
			} else if !taken {
				first[key] = i
			}
		}
	}
	unique("nodeid", func(n BrokerNode) string { return strconv.Itoa(n.NodeID) })
	unique("address", func(n BrokerNode) string { return net.JoinHostPort(n.Address, strconv.Itoa(n.Port)) })
	unique("name", func(n BrokerNode) string { return n.Name })
	unique("broker_id", func(n BrokerNode) string { return n.BrokerID })
	return bad
}

// ClusterConnection is the address of a new cluster, which is its first node, and a
// warning.
type ClusterConnection struct {
	broker.ClusterConnection
	Info string `json:"info,omitempty" doc:"A warning; absent if there is none." example:"-"`
}

// CreateCluster creates a cluster of brokers of the project.
func (a *API) CreateCluster(ctx context.Context, r *CreateClusterRequest) (ClusterConnection, error) {
	spec := broker.ClusterSpec{ClusterName: r.Body.ClusterName, SyncMode: r.Body.SyncMode}
	var err error
	if spec.Nodes, err = a.nodeRefs(r.ProjectID, r.Body.Nodes); err != nil {
		return ClusterConnection{}, err
	}
	made, err := a.Clusters.CreateCluster(ctx, r.ProjectID, spec)
	if err != nil {
		return ClusterConnection{}, err
	}
	first := r.Body.Nodes[0]
	made.ClientCertFile, made.ClientKeyFile, made.CACertFile = first.ClientCertFile, first.ClientKeyFile, first.CACertFile
	c := ClusterConnection{ClusterConnection: made, Info: made.Warning}
	if n := len(spec.Nodes); n < fewNodes {
		few := fmt.Sprintf("a cluster of %d cannot go on when a node fails: that takes %d or more", n, fewNodes)
		c.Info = strings.TrimPrefix(c.Info+"; "+few, "; ")
		a.Log.Warn("a cluster of few nodes was created: it does not survive the failure of one", "cluster", made.ID, "nodes", n)
	}
	return c, nil
}

// nodeRefs checks the nodes; its error names every invalid field.
func (a *API) nodeRefs(projectID string, nodes []BrokerNode) (refs []broker.ClusterNodeRef, err error) {
	var bad []FieldError
	for i, n := range nodes {
		ref := n.ref()
		ref.Target, err = a.nodeTarget(projectID, fmt.Sprintf("body.nodes[%d].", i), n.connection())
		e, ok := errors.AsType[*Error](err)
		fields, named := []FieldError(nil), false
		if ok {
			fields, named = e.Info["errors"].([]FieldError)
		}
		if err != nil && !named {
			return nil, err
		}
		bad, refs = append(bad, fields...), append(refs, ref)
	}
	if bad != nil {
		return nil, Invalid(bad...)
	}
	return refs, nil
}

// DeleteClusterRequest names a cluster.
type DeleteClusterRequest struct {
	ClusterPath
	ClusterName string `query:"clustername" doc:"Name of the cluster, as a check; absent is not checked."`
	Purge       bool   `query:"purge" default:"false" doc:"True deletes the record of the cluster even if it could not be dissolved; its nodes then stay together."`
}

// Deleted reports that something was deleted.
type Deleted struct {
	Deleted bool `json:"deleted" doc:"True: the object was deleted." example:"true"`
}

// DeleteCluster dissolves a cluster.
func (a *API) DeleteCluster(ctx context.Context, r *DeleteClusterRequest) (Deleted, error) {
	err := a.Clusters.DeleteCluster(ctx, r.ProjectID, r.ClusterID, r.ClusterName, r.Purge)
	return Deleted{Deleted: err == nil}, err
}

// DeleteClustersRequest names a project.
type DeleteClustersRequest struct {
	ProjectPath
	Purge bool `query:"purge" default:"false" doc:"True deletes the records of clusters even if they could not be dissolved; their nodes then stay together."`
}

// ClusterOutcome is the outcome of an operation on one of several clusters.
type ClusterOutcome struct {
	ClusterID   string             `json:"clusterId" doc:"Id of the cluster." example:"0190f3c2-9c7d-7b11-a2f4-6d5e4c3b2a19"`
	ClusterName string             `json:"clustername" doc:"Name of the cluster." example:"plant"`
	Status      int                `json:"status" doc:"HTTP status of the operation on this cluster." example:"200"`
	Deleted     *bool              `json:"deleted,omitempty" doc:"Whether the cluster was deleted. Only in the response of deleteClusters." example:"-"`
	Data        *broker.RaftStatus `json:"data,omitempty" doc:"Raft status. Only in the response of getRaftStatus, if the operation succeeded."`
	Error       *ErrorObject       `json:"error,omitempty" doc:"The failure; absent if there was none." example:"-"`
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

// SetClusterLeaderRequest names a cluster and its new leader.
type SetClusterLeaderRequest struct {
	ClusterPath
	Body struct {
		NodeID int `json:"nodeid" required:"true" min:"1" max:"2147483647" doc:"Number of a node that is a voter." example:"2"`
	}
}

// SetClusterLeader makes another node the leader of a cluster.
func (a *API) SetClusterLeader(ctx context.Context, r *SetClusterLeaderRequest) error {
	return a.Clusters.SetLeader(ctx, r.ProjectID, r.ClusterID, r.Body.NodeID)
}

// NodeReference names a node that joins or leaves.
type NodeReference struct {
	BrokerID       string `json:"broker_id" doc:"Id of a broker connection of the project. To join, this or url is required; to leave, this or nodeid." example:"0190f3c2-8d4f-7e22-b3a1-0c9d8e7f6a5b"`
	URL            string `json:"url" doc:"URL of a broker without a connection in the project, as in createBroker." example:"-"`
	Username       string `json:"username" doc:"Username at the broker of url; default none." example:"-"`
	ClientCertFile string `json:"client_cert_file" doc:"Name of a PEM file in the directory certs of the data directory, for the broker of url." example:"-"`
	ClientKeyFile  string `json:"client_key_file" doc:"Name of a PEM file in the directory certs of the data directory, for the broker of url." example:"-"`
	CACertFile     string `json:"ca_cert_file" doc:"Name of a PEM file in the directory certs of the data directory, for the broker of url." example:"-"`
	Fingerprint    string `json:"server_fingerprint" doc:"SHA-256 fingerprint of the only certificate that the broker of url may present, as in createBroker; default none." example:"-"`
	Name           string `json:"name" doc:"Name of the node." example:"n4"`
	Address        string `json:"address" doc:"Address of the node's cluster port, as the other nodes reach it. Required to join." example:"10.0.0.4"`
	NodeID         int    `json:"nodeid" min:"0" doc:"Number of the node, at least 1. Required to join." example:"4"`
	Port           int    `json:"port" min:"0" max:"65535" doc:"Cluster port of the node, at least 1. Required to join." example:"7001"`
}

func (n NodeReference) ref() broker.ClusterNodeRef {
	return broker.ClusterNodeRef{BrokerID: n.BrokerID, NodeID: n.NodeID, Name: n.Name, Address: n.Address, Port: n.Port}
}

// connection returns how the node's broker is reached, if the request has it.
func (n NodeReference) connection() NewConnectionBody {
	c := NewConnectionBody{Name: n.Name, URL: n.URL}
	c.Username, c.ClientCertFile = given(n.Username), given(n.ClientCertFile)
	c.ClientKeyFile, c.CACertFile, c.Fingerprint = given(n.ClientKeyFile), given(n.CACertFile), given(n.Fingerprint)
	return c
}

// JoinClusterRequest adds a node.
type JoinClusterRequest struct {
	ClusterPath
	Body NodeReference
}

// Validate checks that the node is complete.
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
	ref := r.Body.ref()
	if r.Body.URL != "" {
		var err error
		if ref.Target, err = a.nodeTarget(r.ProjectID, "body.", r.Body.connection()); err != nil {
			return err
		}
	}
	return a.Clusters.JoinCluster(ctx, r.ProjectID, r.ClusterID, ref)
}

// LeaveClusterRequest removes a node.
type LeaveClusterRequest struct {
	ClusterPath
	Body NodeReference
}

// Validate checks that the node is named.
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

// GetRaftStatus returns the Raft state of each cluster of a project.
func (a *API) GetRaftStatus(ctx context.Context, r *GetRaftStatusRequest) ([]ClusterOutcome, error) {
	results, err := a.Clusters.GetRaftStatus(ctx, r.ProjectID)
	return outcomes(results, false), err
}
