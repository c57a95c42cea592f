package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// ref names a node in one generation, as in "3.118".
type ref struct {
	id         NodeID
	generation uint64
}

// String gives the name by which the consensus knows it.
func (r ref) String() string { return fmt.Sprintf("%d.%d", r.id, r.generation) }

func parseRef(s string) (r ref, ok bool) {
	id, generation, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(id, 10, 31)
	if err != nil || n == 0 {
		return ref{}, false
	}
	r = ref{id: NodeID(n)}
	if r.generation, err = strconv.ParseUint(generation, 10, 64); err != nil || r.generation == 0 {
		return ref{}, false
	}
	return r, r.String() == s
}

// serverAddress is a node's address for the consensus, as in "3.118@host:port",
// so that whoever connects knows whom to expect there.
func (m Member) serverAddress() raft.ServerAddress {
	return raft.ServerAddress(m.ref().String() + "@" + m.hostPort())
}

// server is the member in a configuration of the consensus.
func (m Member) server(s raft.ServerSuffrage) raft.Server {
	return raft.Server{Suffrage: s, ID: raft.ServerID(m.ref().String()), Address: m.serverAddress()}
}

func parseServerAddress(a raft.ServerAddress) (r ref, hostPort string, ok bool) {
	name, hostPort, ok := strings.Cut(string(a), "@")
	if !ok || hostPort == "" {
		return ref{}, "", false
	}
	r, ok = parseRef(name)
	return r, hostPort, ok
}
