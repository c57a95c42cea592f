package kafka_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/kafka"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// peer is an in-process Kafka cluster, which can be restarted on the same port with the same
// data.
type peer struct {
	address string
	options []kfake.Opt
	cluster *kfake.Cluster
}

func startPeer(t *testing.T, opts ...kfake.Opt) *peer {
	t.Helper()
	p := &peer{address: brokertest.FreePort(t, "127.0.0.1")}
	_, text, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	p.options = append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.DefaultNumPartitions(3)}, opts...)
	p.start(t)
	t.Cleanup(func() { p.cluster.Close() })
	return p
}

func (p *peer) start(t testing.TB) {
	t.Helper()
	cluster, err := kfake.NewCluster(p.options...)
	if err != nil {
		t.Errorf("start the cluster: %v", err)
		return
	}
	p.cluster = cluster
}

func (p *peer) stop() { p.cluster.Close() }

func (p *peer) brokers() string { return fmt.Sprintf(`"brokers":[%q]`, p.address) }

// consume returns that many records of a topic, and fails if there are more.
func (p *peer) consume(t testing.TB, topic string, count int, opts ...kgo.Opt) (all []*kgo.Record) {
	t.Helper()
	held := int64(0)
	for _, info := range p.cluster.PartitionInfos(topic) {
		held += info.HighWatermark
	}
	if held != int64(count) {
		t.Errorf("the topic has %d records, want %d", held, count)
	}
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.address), kgo.ConsumeTopics(topic), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), bridgestest.Patience)
	defer cancel()
	for int64(len(all)) < held {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("consume: %v after %d records", err, len(all))
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

var kind = kafka.Kind{}

// compile creates a connector.
func compile(t *testing.T, connection, options, topicMapping string) bridges.Connector {
	t.Helper()
	document := fmt.Sprintf(`{"name":"c1","connection":{%s},"options":{%s},"topicMappings":[{"name":"t1","mqttTopics":["#"]%s}]}`, connection, options, topicMapping)
	return bridgestest.Compile(t, kind, bridgestest.Connection(t, document,
		mapping.Spec{Name: "s1", Mapping: []mapping.FieldSpec{{Source: "jsonPayload.v", Target: "value", Required: true}}}))
}
