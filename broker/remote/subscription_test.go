package remote

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/client"
	"signalbox/scripts/suite"
)

// withTree enables the topic tree of a target.
func withTree(target broker.Target) broker.Target {
	target.TopicTree = true
	return target
}

// topicsOf returns the topic tree.
func topicsOf(t *testing.T, b *Broker) broker.TopicTree {
	t.Helper()
	trees, err := b.ListTopics(t.Context(), 0, 0, -1)
	if err != nil || len(trees) != 1 {
		t.Fatalf("ListTopics() = %d trees, %v", len(trees), err)
	}
	return trees[0]
}

// waitForTopic publishes nothing and polls until the tree has a topic.
func waitForTopic(t *testing.T, b *Broker, topic string) {
	t.Helper()
	brokertest.WaitFor(t, topic+" is in the tree", func() bool {
		return slices.Contains(topicsOf(t, b).PublishTopics.Topics, topic)
	})
}

func TestTopicsOfABrokerWithoutTree(t *testing.T) {
	t.Parallel()
	b := connected(t, withTree(brokertest.Mosquitto(t).Target()))
	publish(t, b, "before", "retained")
	if tree := topicsOf(t, b); tree.PublishTopics.Count != 0 || tree.SubscribeTopics.Data == nil {
		t.Errorf("the first answer is %+v", tree)
	}
	publish(t, b, "b", "1", "a/b", "\xff", "b", "two", "end", "")
	waitForTopic(t, b, "end")
	got := topicsOf(t, b).PublishTopics
	for i := range got.Data {
		if age := time.Since(time.UnixMilli(got.Data[i].LastModified)); age < -time.Second || age > suite.HangLimit {
			t.Errorf("%s is of %v ago", got.Data[i].Topic, age)
		}
		got.Data[i].LastModified = 0
	}
	want := broker.PublishTopics{Count: 3, Topics: []string{"a/b", "b", "end"}, Data: []broker.PublishTopic{
		{Topic: "a/b", Retain: true, Payload: "/w==", Encoding: "base64", Messages: 1},
		{Topic: "b", Retain: true, Payload: "two", Messages: 2},
		{Topic: "end", Retain: true, Messages: 1},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTTLOfABrokerWithoutTree(t *testing.T) {
	t.Parallel()
	b := connected(t, withTree(brokertest.Mosquitto(t).Target()))
	wantTTL := func(want int64) {
		t.Helper()
		if ttls, err := b.GetTTL(t.Context(), 0); err != nil || len(ttls) != 1 || ttls[0] != want {
			t.Errorf("GetTTL() = %v, %v, want %d", ttls, err, want)
		}
	}
	wantTTL(60)
	for give, want := range map[int64]int64{5: 5, 1 << 62: maxTTL, 0: 0} {
		if err := b.SetTTL(t.Context(), 0, give); err != nil {
			t.Errorf("SetTTL() = %v", err)
		}
		wantTTL(want)
	}
}

// TestTopicTreeIsSwitchedOff still uses the plugin of a broker that has one.
func TestTopicTreeIsSwitchedOff(t *testing.T) {
	t.Parallel()
	target := brokertest.Mosquitto(t).Target()
	target.TopicTree = false
	b := connected(t, target)
	_, list := b.ListTopics(t.Context(), 0, 0, -1)
	_, get := b.GetTTL(t.Context(), 0)
	for feature, errs := range map[broker.Capability][]error{
		broker.CapTopicTree: {list}, broker.CapTTL: {get, b.SetTTL(t.Context(), 0, 5)},
	} {
		for _, err := range errs {
			if e := wantKind(t, err, broker.Unsupported); e.Feature != feature || !strings.Contains(e.Msg, "topictree") {
				t.Errorf("%s lacks %s: %s", e.Op, e.Feature, e.Msg)
			}
		}
	}
	if caps := b.Capabilities(); slices.Contains(caps, broker.CapTopicTree) || slices.Contains(caps, broker.CapTTL) {
		t.Errorf("capabilities: %q", caps)
	}

	plugin := (&scripted{answers: func(topic, command string) string {
		if command == "listTopics" {
			return data(command, `{"publishTopics":{"count":1,"topics":["kept"]},"subscribeTopics":{"count":0}}`)
		}
		return rich(topic, command)
	}}).serve(t)
	plugin.TopicTree = false
	b = connected(t, plugin)
	if got := topicsOf(t, b).PublishTopics.Topics; !slices.Equal(got, []string{"kept"}) {
		t.Errorf("of a broker that keeps a tree: %q", got)
	}
	if caps := b.Capabilities(); !slices.Contains(caps, broker.CapTopicTree) || !slices.Contains(caps, broker.CapTTL) {
		t.Errorf("capabilities of a broker that keeps a tree: %q", caps)
	}
}

func TestFollowsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	server, proxy, b := behind(t)
	direct := connected(t, server.Target())
	follows := func() bool { // requests fail while there is no session
		_, err := b.ListTopics(t.Context(), 0, 0, -1)
		publish(t, direct, "again", "x")
		return err == nil && slices.Contains(topicsOf(t, b).PublishTopics.Topics, "again")
	}
	brokertest.WaitFor(t, "the broker is followed", follows)
	accepted := proxy.Accepted()
	s, err := b.link.current(t.Context())
	must(t, err)
	proxy.Cut()
	<-s.lost // so that no request precedes the detection of the loss
	must(t, b.Ready(t.Context()))
	brokertest.WaitFor(t, "the broker is followed on a new connection", func() bool {
		return follows() && proxy.Accepted() == accepted+3 // the session, a brief one, the follower
	})
}

// feedOf subscribes to everything that a broker publishes.
func feedOf(t *testing.T, b *Broker) broker.Feed {
	t.Helper()
	f, err := allTopicsSubscriber{b}.Subscribe(t.Context(), "#", func(string, []byte, byte, bool) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Stop)
	return f
}

func TestFeedPings(t *testing.T) {
	t.Parallel()
	server := &scripted{answers: onlyDynsec}
	d := quick()
	d.timing.pingInterval = time.Millisecond
	b := open(t, d, server.serve(t))
	must(t, b.Ready(t.Context()))
	f := feedOf(t, b)
	brokertest.WaitFor(t, "the broker is pinged", func() bool { return server.pings.Load() >= 3 })
	select {
	case <-f.Lost():
		t.Error("a broker that answers is taken for lost")
	default:
	}
}

func TestFeedNoticesSilence(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL = proxy.URL
	b := connected(t, target)
	o := b.receiverOptions()
	o.Timing.ReadTimeout = 500 * time.Millisecond // too short for a keep-alive, on which the broker would close the connection itself
	b.receiver = client.New(o)
	var f broker.Feed
	brokertest.WaitFor(t, "a feed", func() (ok bool) { // the time may be too short for a log-in
		var err error
		f, err = allTopicsSubscriber{b}.Subscribe(t.Context(), "#", func(string, []byte, byte, bool) {})
		return err == nil
	})
	t.Cleanup(f.Stop)
	proxy.Silence()
	select {
	case <-f.Lost():
	case <-time.After(suite.HangLimit):
		t.Error("a broker that is silent is still followed")
	}
}

func TestFollowingIsRefused(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: onlyDynsec, refuse: []string{"#"}}).serve(t))
	_, err := b.ListTopics(t.Context(), 0, 0, -1)
	if e := wantKind(t, err, broker.Denied); e != nil && !strings.Contains(e.Msg, `"#"`) {
		t.Errorf("it does not say what is refused: %s", e.Msg)
	}
}

func TestFollowingInTime(t *testing.T) {
	t.Parallel()
	_, proxy, b := behind(t)
	proxy.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.ListTopics(ctx, 0, 0, -1)
	wantKind(t, err, broker.Unavailable)
	proxy.Pass()
	brokertest.WaitFor(t, "the topics can be asked for", func() bool {
		_, err := b.ListTopics(t.Context(), 0, 0, -1)
		return err == nil
	})
}
