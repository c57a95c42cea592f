package broker

import "context"

// Clusters makes several brokers act as one. Its methods take the project that the
// cluster belongs to.
type Clusters interface {
	ListClusters(ctx context.Context, projectID string) ([]Cluster, error)
	GetCluster(ctx context.Context, projectID, clusterID string) (Cluster, error)
	CreateCluster(ctx context.Context, projectID string, c ClusterSpec) (ClusterConnection, error)
	DeleteCluster(ctx context.Context, projectID, clusterID, clustername string, purge bool) error
	DeleteClusters(ctx context.Context, projectID string, purge bool) ([]ClusterResult, error)
	JoinCluster(ctx context.Context, projectID, clusterID string, n ClusterNodeRef) error
	LeaveCluster(ctx context.Context, projectID, clusterID string, n ClusterNodeRef) error
	SetLeader(ctx context.Context, projectID, clusterID string, nodeID int) error
	DrainNode(ctx context.Context, projectID, clusterID string, nodeID int) error
	UndrainNode(ctx context.Context, projectID, clusterID string, nodeID int) error
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
	ID          string        `json:"id" doc:"Id of the cluster." example:"0190f3c2-9c7d-7b11-a2f4-6d5e4c3b2a19"`
	ClusterName string        `json:"clustername" doc:"Name of the cluster." example:"plant"`
	SyncMode    string        `json:"syncmode" doc:"Mode: full, dynsec or hp." example:"full"`
	State       string        `json:"state" doc:"active (all nodes are healthy), degraded (some are not) or inactive (there is no leader)." example:"active"`
	Warning     string        `json:"warning,omitempty" doc:"What the leader warns of although it does not keep the nodes from working: clocks or versions that differ, certificates of listeners that expire within 30 days, messages stored for a node that is away, near their bound, and streams of several nodes that form a loop. Absent if there is nothing. An extension." example:"-"`
	Nodes       []ClusterNode `json:"nodes" doc:"Nodes of the cluster."`
}

// ClusterNode is one broker of a cluster.
type ClusterNode struct {
	BrokerID string `json:"broker_id" doc:"Id of the broker connection of the node." example:"0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"`
	NodeID   int    `json:"nodeid" doc:"Number of the node." example:"1"`
	Name     string `json:"name" doc:"Name of the node." example:"n1"`
	Address  string `json:"address" doc:"Address of the node's cluster port." example:"10.0.0.1"`
	Port     int    `json:"port" doc:"Cluster port of the node, 1 to 65535." example:"7001"`
	URL      string `json:"url" doc:"URL of the node's broker connection." example:"mqtts://10.0.0.1:8883"`
	Leader   bool   `json:"leader" doc:"True if the node is the leader." example:"true"`
	LogIndex int64  `json:"log_index" doc:"Index of the last entry in the node's Raft log." example:"1204"`
	Drain
	Backlog []Backlog `json:"backlog,omitempty" doc:"Other nodes that the node waits for in syncmode hp, with what it stores for each. Absent if there are none. An extension." example:"-"`
	Error   string    `json:"error,omitempty" doc:"Why the node is not healthy. Absent if it is." example:"-"`
}

// ClusterSpec is a cluster to create. SyncMode is full, dynsec or hp.
type ClusterSpec struct {
	ClusterName string
	SyncMode    string
	Nodes       []ClusterNodeRef
}

// ClusterNodeRef names a broker that is, or will be, a node.
type ClusterNodeRef struct {
	BrokerID string
	NodeID   int
	Name     string
	Address  string
	Port     int
	Target   Target
}

// ClusterConnection is the connection record of a new cluster. Warning is empty if there
// is none.
type ClusterConnection struct {
	ID             string `json:"id" doc:"Id of the cluster." example:"0190f3c2-9c7d-7b11-a2f4-6d5e4c3b2a19"`
	URL            string `json:"url" doc:"URL of the first node's broker." example:"mqtts://10.0.0.1:8883"`
	Username       string `json:"username" doc:"Username with which the first node is reached; empty for none." example:"admin"`
	Password       Secret `json:"password" doc:"Password that was sent for the first node; empty for none." example:"correct-horse-battery"`
	ClientCertFile string `json:"client_cert_file" doc:"client_cert_file of the first node in the request." example:"\"\""`
	ClientCert     string `json:"client_cert" doc:"Client certificate of the first node's connection, as PEM; empty for none." example:"\"\""`
	ClientKeyFile  string `json:"client_key_file" doc:"client_key_file of the first node in the request." example:"\"\""`
	ClientKey      Secret `json:"client_key" doc:"Client key that was sent for the first node, as PEM; empty for none." example:"\"\""`
	CACertFile     string `json:"ca_cert_file" doc:"ca_cert_file of the first node in the request." example:"plant-ca.pem"`
	CACert         string `json:"ca_cert" doc:"Certificate authorities of the first node's connection, as PEM; empty for none." example:"-----BEGIN CERTIFICATE-----…"`
	VerifyCACert   int    `json:"verify_ca_cert" enum:"0|1" doc:"1 if the certificate of the broker is verified, 0 if not." example:"1"`
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

// RaftStatus is the Raft state of a cluster as one node sees it. State is 0
// unavailable, 1 follower, 2 candidate, 3 leader.
type RaftStatus struct {
	Nodes        []RaftNode `json:"nodes" doc:"Members, as the node that was asked knows them."`
	State        int        `json:"state" doc:"State of the node that was asked: 0 unavailable, 1 follower, 2 candidate, 3 leader. It is the leader where that can be reached." example:"3"`
	CommitIndex  int64      `json:"commit_index" doc:"Index of the last committed log entry." example:"1204"`
	LastApplied  int64      `json:"last_applied" doc:"Index of the last applied log entry." example:"1204"`
	LastStored   int64      `json:"last_stored" doc:"Index of the last stored log entry." example:"1204"`
	CurrentTerm  int64      `json:"current_term" doc:"Current Raft term." example:"7"`
	SyncMode     string     `json:"syncmode" doc:"Mode: full, dynsec or hp." example:"full"`
	ErrorMessage string     `json:"errmsg" doc:"Why a node does not take part; empty if all do." example:"\"\""`
	Warning      string     `json:"warning,omitempty" doc:"What the leader warns of although it does not keep the nodes from working: clocks or versions that differ, certificates of listeners that expire within 30 days, messages stored for a node that is away, near their bound, and streams of several nodes that form a loop. Absent if there is nothing. An extension." example:"-"`
	Drain
	Backlog []Backlog `json:"backlog,omitempty" doc:"Other nodes that the node that was asked waits for in syncmode hp, with what it stores for each. Absent if there are none. An extension." example:"-"`
}

// Backlog is what a node of a cluster of syncmode hp stores for another one that is, or was, away.
type Backlog struct {
	NodeID   int   `json:"nodeid" doc:"Number of the node that is waited for." example:"3"`
	Away     bool  `json:"away" doc:"True while the node cannot be reached by the one that stores the messages; false while it gets them." example:"true"`
	Messages int64 `json:"messages" doc:"Messages above QoS 0 that were acknowledged and that the node does not have yet." example:"1200"`
	Bytes    int64 `json:"bytes" doc:"Bytes of these messages on the disk." example:"340000"`
	MaxBytes int64 `json:"max_bytes" doc:"Bound of these bytes (cluster.max_backlog): messages beyond it are refused with 0x97." example:"1073741824"`
}

// Drain is whether a node was drained, and how much it still has.
type Drain struct {
	Drained      bool `json:"drained,omitempty" doc:"True if the node was drained: it refuses clients and moves its sessions to the other nodes. Absent if not. An extension." example:"-"`
	SessionsLeft int  `json:"sessions_left,omitempty" doc:"Sessions that a drained node still has. Absent if there are none. An extension." example:"-"`
}

// RaftNode is a member of the Raft configuration: role 0 standby, 1 voter, 2 spare.
type RaftNode struct {
	ID      int    `json:"id" doc:"Number of the node." example:"1"`
	Address string `json:"address" doc:"Address and cluster port of the node." example:"10.0.0.1:7001"`
	Role    int    `json:"role" doc:"0 standby, 1 voter, 2 spare." example:"1"`
	Error   string `json:"error,omitempty" doc:"Why the leader cannot reach the node; missing if it can." example:"dial tcp 10.0.0.1:7001: connect: connection refused"`
}
