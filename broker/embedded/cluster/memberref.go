package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// memberRef identifies a node in one generation, as in "3.118". A node that has lost its data
// and is added again has another generation, so that for raft it is another node, which has not
// voted.
type memberRef struct {
	id         NodeID
	generation uint64
}

// String returns the name by which the consensus knows the node.
func (r memberRef) String() string { return fmt.Sprintf("%d.%d", r.id, r.generation) }

func parseMemberRef(s string) (r memberRef, ok bool) {
	id, generation, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil || n == 0 {
		return memberRef{}, false
	}
	r = memberRef{id: NodeID(n)}
	if r.generation, err = strconv.ParseUint(generation, 10, 64); err != nil || r.generation == 0 {
		return memberRef{}, false
	}
	return r, r.String() == s
}

// serverAddress is a node's address for raft, as in "3.118@host:port", so that a connection to it
// can be verified.
func (m Member) serverAddress() raft.ServerAddress {
	return raft.ServerAddress(m.ref().String() + "@" + m.hostPort())
}

// server is the member in a configuration of the consensus.
func (m Member) server(s raft.ServerSuffrage) raft.Server {
	return raft.Server{Suffrage: s, ID: raft.ServerID(m.ref().String()), Address: m.serverAddress()}
}

func parseServerAddress(a raft.ServerAddress) (r memberRef, hostPort string, ok bool) {
	name, hostPort, ok := strings.Cut(string(a), "@")
	if !ok || hostPort == "" {
		return memberRef{}, "", false
	}
	r, ok = parseMemberRef(name)
	return r, hostPort, ok
}
