package broker

import "context"

// Clusters makes several brokers act as one. Its methods take the project that
// the cluster belongs to.
type Clusters interface {
	ListClusters(ctx context.Context, projectID string) ([]Cluster, error)
	GetCluster(ctx context.Context, projectID, clusterID string) (Cluster, error)
	CreateCluster(ctx context.Context, projectID string, c ClusterSpec) (ClusterConnection, error)
	DeleteCluster(ctx context.Context, projectID, clusterID, clustername string, purge bool) error
	DeleteClusters(ctx context.Context, projectID string, purge bool) ([]ClusterResult, error)
	JoinCluster(ctx context.Context, projectID, clusterID string, n ClusterNodeRef) error
	LeaveCluster(ctx context.Context, projectID, clusterID string, n ClusterNodeRef) error
	SetLeader(ctx context.Context, projectID, clusterID string, nodeID int) error
	GetRaftStatus(ctx context.Context, projectID string) ([]ClusterResult, error)
}

// The modes of clusters: what their nodes share.
const (
	SyncFull   = "full"   // everything; only the leader serves clients
	SyncDynsec = "dynsec" // access control
	SyncHP     = "hp"     // access control and retained messages; messages cross nodes
)

// Cluster is a cluster with its nodes. State is active (all nodes healthy),
// degraded (some down) or inactive (no leader).
type Cluster struct {
	ID          string        `json:"id"`
	ClusterName string        `json:"clustername"`
	SyncMode    string        `json:"syncmode"`
	State       string        `json:"state"`
	Nodes       []ClusterNode `json:"nodes"`
}

// ClusterNode is one broker of a cluster.
type ClusterNode struct {
	BrokerID string `json:"broker_id"`
	NodeID   int    `json:"nodeid"`
	Name     string `json:"name"`
	Address  string `json:"address"`
	Port     int    `json:"port"`
	URL      string `json:"url"`
	Leader   bool   `json:"leader"`
	LogIndex int64  `json:"log_index"`
	Error    string `json:"error,omitempty"`
}

// ClusterSpec is a cluster to be made. SyncMode is full, dynsec or hp.
type ClusterSpec struct {
	ClusterName string
	SyncMode    string
	Nodes       []ClusterNodeRef
}

// ClusterNodeRef names a broker that is, or shall be, a node.
type ClusterNodeRef struct {
	BrokerID string
	NodeID   int
	Name     string
	Address  string
	Port     int
	Target   Target
}

// ClusterConnection is the connection record of a new cluster. Warning is what is to
// be said of that, if anything.
type ClusterConnection struct {
	ID             string `json:"id"`
	URL            string `json:"url"`
	Username       string `json:"username"`
	Password       Secret `json:"password"`
	ClientCertFile string `json:"client_cert_file"`
	ClientCert     string `json:"client_cert"`
	ClientKeyFile  string `json:"client_key_file"`
	ClientKey      Secret `json:"client_key"`
	CACertFile     string `json:"ca_cert_file"`
	CACert         string `json:"ca_cert"`
	VerifyCACert   int    `json:"verify_ca_cert" enum:"0|1"`
	Warning        string `json:"-"`
}

// ClusterResult is the outcome of one operation for one of several clusters:
// Data, or Err.
type ClusterResult struct {
	ClusterID   string
	ClusterName string
	Data        *RaftStatus
	Err         error
}

// RaftStatus is the state of a cluster's consensus as one node sees it. State
// is 0 unavailable, 1 follower, 2 candidate, 3 leader.
type RaftStatus struct {
	Nodes        []RaftNode `json:"nodes"`
	State        int        `json:"state"`
	CommitIndex  int64      `json:"commit_index"`
	LastApplied  int64      `json:"last_applied"`
	LastStored   int64      `json:"last_stored"`
	CurrentTerm  int64      `json:"current_term"`
	SyncMode     string     `json:"syncmode"`
	ErrorMessage string     `json:"errmsg"`
}

// RaftNode is a member of the consensus: role 0 standby, 1 voter, 2 spare.
type RaftNode struct {
	ID      int    `json:"id"`
	Address string `json:"address"`
	Role    int    `json:"role"`
}
