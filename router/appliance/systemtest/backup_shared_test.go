package systemtest

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"signalbox/scripts/suite"
)

// TestRestoreOfANodeThatSharesData loses the node of a cluster that runs the stream and the bridge of a connected broker, with all
// its data, after everything was delivered. Others go on with them. The restored node does not run them before it joins again,
// nor afterwards unless it leads: no message is delivered twice.
func TestRestoreOfANodeThatSharesData(t *testing.T) {
	t.Parallel()
	const phase = 100 // messages
	c, source, at := startConnected(t)
	first := c.machines[0]
	first.api.must(t, "POST", at+"/streams", object{"streamname": "kept", "sourcetopic": "plant/#", "persist": true}, nil)
	target := startHTTPPeer(t)
	bridge, document := target.bridge()
	first.api.must(t, "PUT", at+"/bridges/"+bridge+"/config", document, nil)
	c.createShared(t)
	deliver := func(publishers *publishers) {
		t.Helper()
		last := publishers.finish(t, publishers.acknowledged()+phase)
		suite.WaitFor(t, "all messages are delivered", func() bool { return len(missing(target.all(t), last)) == 0 })
	}
	publish := func(topic string) *publishers {
		t.Helper()
		return publishTo(t, endpoint{address: source.Addr}, 1, []string{topic})
	}
	deliver(publish("plant/before"))

	lost, others := c.leading(t)
	before := lost.stored(t, at, "kept")
	restore := lost.backUp(t)
	lost.run.Kill()
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	deliver(publish("plant/lost"))
	wantRefused(t, restore(), "--cluster rejoin")
	if got := restore("--cluster", "rejoin"); got.code != 0 {
		t.Fatalf("restore: %+v", got)
	}
	lost.start(t)
	suite.WaitFor(t, "the restored node shows the stream", func() bool { return lost.streamState(t, at, "kept") != "" })
	if state, enabled := lost.streamState(t, at, "kept"), lost.hasBridge(t, at, bridge); state != "inactive" || enabled {
		t.Errorf("the restored node has the stream %s, and the bridge switched on: %t", state, enabled)
	}
	if n := lost.stored(t, at, "kept"); n != before {
		t.Errorf("the restored node has %d messages of the stream, want %d", n, before)
	}
	deliver(publish("plant/alone"))
	c.console = others[0].api
	if lost == first { // the others reached it over the cluster port, and cannot before it joins again
		others[0].change(t, "PUT", c.console.inProject("/brokers/"+c.brokers[lost.id]), object{"url": "mqtt://" + lost.mqtt, "username": mqttAdmin, "password": mqttPassword})
	}
	joining := publish("plant/joining")
	c.rejoin(t, lost)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the stream and the bridge", m.id), func() bool {
			return m.streamState(t, at, "kept") == "active" && m.hasBridge(t, at, bridge)
		})
	}
	deliver(joining)
	taken := slices.DeleteFunc(target.all(t), func(a arrival) bool { return a.Topic == "plant/lost" }) // some came twice around the loss
	if twice := repeated(taken); twice > 0 {
		t.Errorf("%d messages were delivered twice", twice)
	}
}
