package embedded

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/mesh"
)

// ClusterConfig is the configuration under "cluster.".
type ClusterConfig struct {
	// Listen is the address of the cluster port; empty for a broker that cannot be a node.
	Listen string `mapstructure:"listen"`
	// MaxLag is the number of committed changes that may be waiting to be applied here
	// while the broker is ready; 0 for any number.
	MaxLag int `mapstructure:"max_lag"`
	// MinFreeDisk is the number of free bytes on the disk of the cluster's files below
	// which the broker is not ready; 0 for none.
	MinFreeDisk int64 `mapstructure:"min_free_disk"`
	// Expect is the name of the cluster without which the broker serves administrators only;
	// empty for a broker that also serves alone.
	Expect string `mapstructure:"expect"`
	// ClientAddress is the address, host:port, at which clients reach this node. Nodes that stop, or
	// lead no more, name it to their clients of MQTT 5; empty for none.
	ClientAddress string `mapstructure:"client_address"`
	// DrainTimeout bounds how long a node of a cluster of syncmode hp moves its sessions to the
	// other nodes before it stops; 0 for a node that keeps them.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`
	// MaxBacklog bounds what a node of a cluster of syncmode hp stores for each other one that is
	// away, in bytes.
	MaxBacklog int64 `mapstructure:"max_backlog"`
	// ElectionTimeout is the time without contact to the leader after which the other nodes
	// elect another one.
	ElectionTimeout time.Duration `mapstructure:"election_timeout"`
	// ShareData has the nodes of a cluster share the data of the platform, too; it is the same at all nodes. It
	// counts when a cluster is created, or joined.
	ShareData bool `mapstructure:"share_data"`
	// Seal encrypts the node's key in the data directory; without it the key is stored in
	// plaintext.
	Seal cluster.Sealer `mapstructure:"-"`
	// Allowed returns the check that is made before a connection to another node; nil
	// allows any.
	Allowed func(hostPort string) cluster.Control `mapstructure:"-"`
}

// The bounds of DrainTimeout, MaxBacklog and ElectionTimeout.
const (
	minBacklog         = 1 << 20
	maxDrainTimeout    = 10 * time.Minute
	minElectionTimeout = 100 * time.Millisecond
	maxElectionTimeout = time.Minute
)

// DefaultClusterConfig returns the configuration of an empty file.
func DefaultClusterConfig() ClusterConfig {
	return ClusterConfig{MaxLag: 10_000, MinFreeDisk: 128 << 20, DrainTimeout: 20 * time.Second, MaxBacklog: mesh.DefaultMaxBacklog, ElectionTimeout: 700 * time.Millisecond}
}

// Validate returns an error that names every invalid key.
func (c ClusterConfig) Validate() error {
	var errs []error
	if c.MaxLag < 0 {
		errs = append(errs, errors.New("cluster.max_lag: must not be negative"))
	}
	if c.MinFreeDisk < 0 {
		errs = append(errs, errors.New("cluster.min_free_disk: must not be negative"))
	}
	if err := validateClientAddress(c.ClientAddress); c.ClientAddress != "" && err != nil {
		errs = append(errs, fmt.Errorf("cluster.client_address: %w", err))
	}
	if t := c.DrainTimeout; t < 0 || t > maxDrainTimeout {
		errs = append(errs, fmt.Errorf("cluster.drain_timeout: must be from 0s to %v", maxDrainTimeout))
	}
	if c.MaxBacklog < minBacklog {
		errs = append(errs, fmt.Errorf("cluster.max_backlog: must be at least %d", minBacklog))
	}
	if t := c.ElectionTimeout; t < minElectionTimeout || t > maxElectionTimeout {
		errs = append(errs, fmt.Errorf("cluster.election_timeout: must be from %v to %v", minElectionTimeout, maxElectionTimeout))
	}
	for _, needs := range []struct {
		key string
		set bool
	}{{"expect", c.Expect != ""}, {"share_data", c.ShareData}} {
		if needs.set && c.Listen == "" {
			errs = append(errs, fmt.Errorf("cluster.%s: needs cluster.listen, by which the other nodes reach this one", needs.key))
		}
	}
	if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		errs = append(errs, fmt.Errorf("cluster.listen: must be host:port, as in 10.0.0.1:7000, or empty: %w", err))
	}
	return errors.Join(errs...)
}

// maxClientAddress is the greatest length of a host name with a port.
const maxClientAddress = 253 + len(":65535")

// validateClientAddress checks an address that is to be named to clients, which another node may
// have sent.
func validateClientAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || notNumber != nil || number == 0 || len(address) > maxClientAddress ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("must be host:port, as in broker-1.example.org:8883, or empty")
	}
	return nil
}
