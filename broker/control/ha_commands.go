package control

// HACommand is a command of [HATopic] to send to a broker.
type HACommand struct {
	name string
	args haArgs
}

// haArgs are the members of commands about clusters. Zero members are omitted.
type haArgs struct {
	Command         string      `json:"command"`
	ClusterName     string      `json:"clustername,omitempty"`
	SyncMode        string      `json:"syncmode,omitempty"`
	Nodes           []HANode    `json:"nodes,omitempty"`
	NodeID          int         `json:"nodeid,omitempty"`
	Address         string      `json:"address,omitempty"`
	Port            int         `json:"port,omitempty"`
	Invitation      *Invitation `json:"invitation,omitempty"`
	CorrelationData string      `json:"correlationData,omitempty"`
}

// Name returns the command's name.
func (c HACommand) Name() string { return c.name }

// Encode returns the message with just this command, as [Command.Encode] does.
func (c HACommand) Encode(correlation string) []byte {
	c.args.Command, c.args.CorrelationData = c.name, correlation
	return encode(map[string][]haArgs{"commands": {c.args}})
}

// CreateCluster returns the command of this name. The response is an [HACreated].
func CreateCluster(s HASpec) HACommand {
	return HACommand{opCreateCluster, haArgs{ClusterName: s.ClusterName, SyncMode: s.SyncMode, Nodes: s.Nodes}}
}

// JoinCluster returns the command of this name.
func JoinCluster(s HASpec) HACommand {
	return HACommand{opJoinCluster, haArgs{ClusterName: s.ClusterName, SyncMode: s.SyncMode, Nodes: s.Nodes, Invitation: s.Invitation}}
}

// AddNode returns the command of this name. The response is an [HAAdded].
func AddNode(clustername string, n HANode) HACommand { return aboutNode(opAddNode, clustername, n) }

// RemoveNode returns the command of this name.
func RemoveNode(clustername string, n HANode) HACommand {
	return aboutNode(opRemoveNode, clustername, n)
}

// LeaveCluster returns the command of this name.
func LeaveCluster(clustername string, n HANode) HACommand {
	return aboutNode(opLeaveCluster, clustername, n)
}

// DeleteCluster returns the command of this name.
func DeleteCluster(clustername string) HACommand {
	return HACommand{opDeleteCluster, haArgs{ClusterName: clustername}}
}

// SetLeader returns the command of this name.
func SetLeader(clustername string, nodeid int) HACommand {
	return HACommand{opSetLeader, haArgs{ClusterName: clustername, NodeID: nodeid}}
}

// GetCluster returns the command of this name. The response is an [HACluster].
func GetCluster() HACommand { return HACommand{name: opGetCluster} }

// GetRaftStatus returns the command of this name. The response is an [HAStatus].
func GetRaftStatus() HACommand { return HACommand{name: opGetRaftStatus} }

func aboutNode(op, clustername string, n HANode) HACommand {
	return HACommand{op, haArgs{ClusterName: clustername, NodeID: n.NodeID, Address: n.Address, Port: n.Port}}
}
