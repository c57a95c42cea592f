package embedded

import (
	"strings"
	"testing"
	"time"
)

// TestClusterConfig names every invalid key, and accepts the defaults.
func TestClusterConfig(t *testing.T) {
	t.Parallel()
	for key, change := range map[string]func(*ClusterConfig){
		"":                         func(*ClusterConfig) {},
		"cluster.max_lag":          func(c *ClusterConfig) { c.MaxLag = -1 },
		"cluster.min_free_disk":    func(c *ClusterConfig) { c.MinFreeDisk = -1 },
		"cluster.election_timeout": func(c *ClusterConfig) { c.ElectionTimeout = time.Millisecond },
		"cluster.drain_timeout":    func(c *ClusterConfig) { c.DrainTimeout = -time.Second },
		"cluster.max_backlog":      func(c *ClusterConfig) { c.MaxBacklog = 1000 },
		"cluster.listen":           func(c *ClusterConfig) { c.Listen = "7000" },
		"cluster.expect":           func(c *ClusterConfig) { c.Expect = "plant" },
		"cluster.share_data":       func(c *ClusterConfig) { c.ShareData = true },
		"cluster.client_address":   func(c *ClusterConfig) { c.ClientAddress = "broker-1" },
	} {
		c := DefaultClusterConfig()
		change(&c)
		if err := c.Validate(); (err != nil) != (key != "") || err != nil && !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for address, valid := range map[string]bool{
		"broker-1.example.org:8883": true, "10.0.0.1:1883": true, "[fd00::1]:1883": true,
		":1883": false, "a:0": false, "a:70000": false, "a b:1883": false, "a:1883\n": false, strings.Repeat("a", 260) + ":1": false,
	} {
		if err := validateClientAddress(address); (err == nil) != valid {
			t.Errorf("%q: %v", address, err)
		}
	}
}
