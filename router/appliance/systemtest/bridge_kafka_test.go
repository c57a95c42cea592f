package systemtest

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/brokertest"
)

// kafkaPeer is a Kafka of one broker, which stores its records on disk.
type kafkaPeer struct {
	arrivals
	address, dir string
	port         int
	cluster      *kfake.Cluster
}

func newKafkaPeer(t testing.TB, _ endpoint) peer {
	t.Helper()
	p := &kafkaPeer{dir: t.TempDir()}
	_, p.port, p.address = cutAddress(t, brokertest.FreePort(t, "127.0.0.1"))
	p.start(t)
	t.Cleanup(func() { p.stop(t) })
	p.consume(t)
	return p
}

func (p *kafkaPeer) bridge() (string, object) {
	return "kafka-bridge", connectTo(object{"brokers": []string{p.address}}, object{}, object{"target": "plant"})
}

func (p *kafkaPeer) start(t testing.TB) {
	t.Helper()
	var err error
	p.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(p.port), kfake.SeedTopics(4, "plant"),
		kfake.DataDir(p.dir), kfake.SyncWrites())
	if err != nil {
		t.Fatal(err)
	}
}

func (p *kafkaPeer) stop(testing.TB) { p.cluster.Close() }

// consume receives all records, until the test ends.
func (p *kafkaPeer) consume(t testing.TB) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.address), kgo.ConsumeTopics("plant"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(p.record)
		}
	})
	t.Cleanup(func() {
		cancel()
		work.Wait()
		client.Close()
	})
}

func (p *kafkaPeer) record(r *kgo.Record) {
	var a arrival
	if json.Unmarshal(r.Value, &a) != nil {
		a.Topic = "damaged: " + strconv.Quote(string(r.Value))
	}
	for _, h := range r.Headers {
		if h.Key == "mqtt.message_id" {
			a.ID = string(h.Value)
		}
	}
	p.take(a)
}
