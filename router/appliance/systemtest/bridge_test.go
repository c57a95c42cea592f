package systemtest

import (
	"fmt"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// peer is the other system of a bridge, for the duration of a test. It is running when
// it is created.
type peer interface {
	// bridge returns the id of the bridge and its configuration.
	bridge() (id string, document object)
	// stop stops it as its operator would, and start starts it again on its data.
	stop(t testing.TB)
	start(t testing.TB)
	// count returns approximately how many messages arrived, all returns them in order.
	// Both work while it is stopped.
	count(t testing.TB) int
	all(t testing.TB) []arrival
}

// publishingPeer is a peer from which messages come: they are published there.
type publishingPeer interface{ entrance() endpoint }

// messages is the minimum number of messages over each bridge.
const messages = 10_000

// TestCampaignBridges sends messages over each bridge, while the peer restarts and
// while the service is killed. No acknowledged message may be lost, and the order of
// each topic is kept.
func TestCampaignBridges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		make func(t testing.TB, own endpoint) peer
		// once is set if the peer detects duplicates.
		once bool
	}{
		{name: "HTTP", make: newHTTPPeer},
		{name: "to Mosquitto", make: newOutboundPeer},
		{name: "from Mosquitto", make: newInboundPeer},
		{name: "PostgreSQL", make: newPostgresPeer, once: true},
		{name: "MariaDB", make: newMariaDBPeer, once: true},
		{name: "InfluxDB", make: newInfluxPeer, once: true},
		{name: "Kafka", make: newKafkaPeer},
		{name: "JetStream", make: newJetStreamPeer, once: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			campaign := newBridgeCampaign(t, c.make)
			campaign.run(t)
			found := campaign.compare(t)
			if c.once && found.duplicates > 0 {
				t.Errorf("%d messages came twice", found.duplicates)
			}
		})
	}
}

// bridgeCampaign is a campaign over one bridge.
type bridgeCampaign struct {
	settings settings
	service  *service
	api      *caller
	bridge   string // id
	peer     peer
	inbound  bool // from the peer to the service

	publishers *publishers
	last       map[string]int // last number of each topic, when all is sent
}

// newBridgeCampaign starts the service, with a bridge to the peer, and the publishers.
func newBridgeCampaign(t testing.TB, newPeer func(testing.TB, endpoint) peer) *bridgeCampaign {
	t.Helper()
	own := endpoint{brokertest.FreePort(t, suite.Host()), "plant", "secret"}
	c := &bridgeCampaign{settings: configured(settings{"BROKER_LISTEN": own.address, "LOG_LEVEL": "info"})}
	c.service = serve(t, dataDir(t), c.settings)
	c.api = root(t, c.service)
	c.api.createClient(t, own)
	c.peer = newPeer(t, own)
	var document object
	c.bridge, document = c.peer.bridge()
	c.api.must(t, "PUT", c.api.at("/bridges/"+c.bridge+"/config"), document, nil)
	suite.WaitFor(t, "the bridge is connected", func() bool { return c.status(t).IsConnected })
	if s, is := c.peer.(publishingPeer); is {
		own, c.inbound = s.entrance(), true
	}
	c.publishers = newPublishers(t, own)
	return c
}

// createClient creates a client that may publish and subscribe to the messages of the
// bridge.
func (c *caller) createClient(t testing.TB, e endpoint) {
	t.Helper()
	var acls []object
	for _, kind := range []string{"publishClientSend", "publishClientReceive", "subscribePattern"} {
		acls = append(acls, object{"acltype": kind, "topic": "plant/#", "priority": 0, "allow": true})
	}
	c.must(t, "POST", c.at("/roles"), object{"rolename": "plant"}, nil)
	c.must(t, "PUT", c.at("/roles"), object{"rolename": "plant", "acls": acls}, nil)
	c.must(t, "POST", c.at("/clients"), object{"username": e.username, "password": e.password,
		"roles": []object{{"rolename": "plant"}}}, nil)
}

// bridgeStatus is the status of the connection that the service reports.
type bridgeStatus struct {
	QueuedMessages int
	IsConnected    bool
	Error          string
	Stats          struct{ Dropped, Rejected, DeadLetters int }
}

func (c *bridgeCampaign) status(t testing.TB) bridgeStatus {
	t.Helper()
	return c.statusAt(t, c.api.at(""))
}

// statusAt returns the status of the bridge of the broker with a path.
func (c *bridgeCampaign) statusAt(t testing.TB, path string) bridgeStatus {
	t.Helper()
	var list []bridgeStatus
	c.api.must(t, "GET", path+"/bridges/"+c.bridge+"/status", nil, &list)
	if len(list) != 1 {
		t.Fatalf("status of %d connections, want one", len(list))
	}
	return list[0]
}

// run kills the service three times, and stops the peer once: while messages are
// delivered, while they are queued, and while the queue shrinks.
func (c *bridgeCampaign) run(t *testing.T) {
	t.Helper()
	c.awaitDeliveries(t, messages/8)
	c.kill(t, "while messages go through")
	c.awaitDeliveries(t, messages/8)
	c.peer.stop(t)
	if !c.inbound {
		from := c.publishers.acknowledged()
		suite.WaitFor(t, "messages are queued", func() bool { return c.publishers.acknowledged() >= from+messages/8 })
	}
	c.kill(t, "while the peer is away")
	c.peer.start(t)
	c.awaitDeliveries(t, messages/20)
	c.kill(t, "while the queue gets shorter")
	c.last = c.publishers.finish(t, messages)
	defer func() { // also where the wait ends the test
		if t.Failed() {
			c.compare(t)
		}
	}()
	suite.WaitFor(t, "all messages are there", func() bool {
		return c.peer.count(t) >= c.sent() && complete(c.peer.all(t), c.last)
	})
	suite.WaitFor(t, "nothing is queued", func() bool { return c.status(t).QueuedMessages == 0 })
	if s := c.status(t); s.Stats.Dropped+s.Stats.Rejected+s.Stats.DeadLetters > 0 || s.Error != "" {
		t.Errorf("status in the end: %+v", s)
	}
	c.service.stop(t)
}

// awaitDeliveries waits until so many more messages have come to the peer.
func (c *bridgeCampaign) awaitDeliveries(t testing.TB, n int) {
	t.Helper()
	from := c.peer.count(t)
	suite.WaitFor(t, fmt.Sprintf("%d more messages come than %d", n, from), func() bool { return c.peer.count(t) >= from+n })
}

// kill kills the service and starts it again.
func (c *bridgeCampaign) kill(t testing.TB, when string) {
	t.Helper()
	c.service.Kill()
	t.Logf("killed %s: %d acknowledged, about %d came", when, c.publishers.acknowledged(), c.peer.count(t))
	c.service = serve(t, c.service.dir, c.settings)
	c.api.url = c.service.API
}

// sent returns how many messages were.
func (c *bridgeCampaign) sent() (n int) {
	for _, last := range c.last {
		n += last
	}
	return n
}

// compare looks for what is lost, and where the order was lost.
func (c *bridgeCampaign) compare(t testing.TB) comparison {
	t.Helper()
	found := compare(c.peer.all(t), c.last)
	for _, violation := range found.violations {
		t.Error(violation)
	}
	t.Logf("%d messages acknowledged and there; %d that were sent again came twice, %d were delivered twice",
		c.sent(), found.resent, found.duplicates)
	return found
}
