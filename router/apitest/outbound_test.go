package apitest_test

import (
	"net"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// denyLoopback denies the service all connections to its own machine.
func denyLoopback(c *appliance.Config) { c.Outbound.Deny = []string{"127.0.0.0/8", "::1"} }

// TestOutboundOfBrokers scans the service's machine as an administrator of a project,
// which any user can be.
func TestOutboundOfBrokers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, denyLoopback)
	inside := newRecorder(t)
	_, port, _ := net.SplitHostPort(inside.addr)
	admin := api.Token("admin")
	for _, url := range []string{"mqtt://127.0.0.1:", "mqtt://localhost:", "mqtt://127.1.2.3:", "mqtt://0.0.0.0:", "mqtt://[::]:", "mqtt://[::1]:",
		"mqtt://[::ffff:127.0.0.1]:", "mqtt://[::ffff:7f00:1]:", "mqtts://127.0.0.1:", "ws://localhost:", "wss://127.0.0.1:"} {
		var trial handlers.BrokerTrial
		admin.Post("/api/projects/"+api.Project+"/brokers/test", object{"name": "x", "url": url + port}).Want(200).Decode(&trial)
		if trial.Connected || !strings.Contains(trial.Error, "does not connect to") {
			t.Errorf("%s%s: got %+v, want it refused", url, port, trial)
		}
	}
	id := addBroker(t, api, object{"name": "b", "url": "mqtt://" + inside.addr})
	waitFor(t, "the reason in the record", func() bool { return strings.Contains(brokerRecord(api, id).Status.Error, "does not connect to") })
	if n := inside.connections(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestOutboundOfMetadata dials the addresses that are denied by default. Nothing leaves
// the machine, as the address is refused before.
func TestOutboundOfMetadata(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "100.100.100.200"} {
		var trial handlers.BrokerTrial
		api.Root.Post("/api/projects/"+api.Project+"/brokers/test", object{"name": "x", "url": "mqtt://" + host + ":80"}).Want(200).Decode(&trial)
		if trial.Connected || !strings.Contains(trial.Error, "outbound.allow") {
			t.Errorf("%s: got %+v, want it refused", host, trial)
		}
	}
}

// TestOutboundOfBridges points bridges of each kind at the service's machine, as a
// viewer, who may write their configurations.
func TestOutboundOfBridges(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, denyLoopback)
	inside, viewer, editor := newRecorder(t), api.Token("viewer"), api.Token("editor")
	certificate, key := newCertificate(t)
	for kind, targets := range withSecrets(inside.addr, certificate, key) {
		var names []string
		for i := range targets {
			names = append(names, nameOf(i))
		}
		at := func(path string) string { return api.At("/bridges/" + kind + path) }
		config := connectionsTo(kind, names, targets)
		var tested []broker.BridgeTest
		editor.Post(at("/test"), config).Want(200).Decode(&tested)
		for i, r := range tested {
			if r.IsConnected || !strings.Contains(r.Error, "does not connect to") {
				t.Errorf("%s %v: tested %+v, want it refused", kind, targets[i], r)
			}
		}
		viewer.Put(at("/config"), config).Want(204)
		waitFor(t, kind+" to be refused", func() bool {
			var all []broker.BridgeStatus
			viewer.Get(at("/status")).Want(200).Decode(&all)
			for _, s := range all {
				if s.IsConnected || !strings.Contains(s.Error, "does not connect to") {
					return false
				}
			}
			return len(all) == len(targets)
		})
	}
	if n := inside.connections(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestProjectCreators tries who may create projects.
func TestProjectCreators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		creators []string
		ann, bob bool
	}{
		"everyone": {[]string{"everyone"}, true, true},
		"root":     {[]string{"root"}, false, false},
		"a list":   {[]string{"ANN@example.com"}, true, false},
	} {
		api := apitest.New(t, func(a *appliance.Config) { a.Auth.ProjectCreators = c.creators })
		for who, may := range map[testUser]bool{addTestUser(t, api, "ann"): c.ann, addTestUser(t, api, "bob"): c.bob} {
			answer := who.Post("/api/projects", object{"name": "mine"})
			if may {
				answer.Want(200)
			} else if answer.WantError(403, "FORBIDDEN"); !strings.Contains(answer.Error().Message, "auth.project_creators") {
				t.Errorf("%s: %s is told %q", name, who.email, answer.Error().Message)
			}
		}
		api.Root.Post("/api/projects", object{"name": "theirs"}).Want(200)
	}
}

// TestOutboundOfClusters names listeners on the service's machine as the cluster port
// of a node, as an administrator of a project.
func TestOutboundOfClusters(t *testing.T) {
	t.Parallel()
	inside := newRecorder(t)
	all := startSites(t, 2, func(c *appliance.Config) { c.Outbound.Deny = []string{inside.addr} })
	all[1].port = inside.addr
	answer := all[0].Root.Post("/api/projects/"+all[0].Project+"/clusters", object{"clustername": "plant", "syncmode": "dynsec",
		"nodes": []object{all[0].node(), all[1].node()}})
	if n := inside.connections(); n > 0 {
		t.Errorf("%d connections were made, and answered %d %s", n, answer.Status, answer.Body)
	}
}
