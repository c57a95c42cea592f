package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/kafka"
)

// TestBrokersNamedByOthersAreDialledAlike has a cluster advertise brokers that are not in the
// configuration.
func TestBrokersNamedByOthersAreDialledAlike(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(9, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	seed := cluster.ListenAddrs()[0]
	others := make(chan string, 1) // the first address other than the seed
	errDenied := errors.New("denied")
	c := &bridges.Connection{Name: "c", Document: []byte(`{"name":"c","connection":{"brokers":["` + seed + `"]},
		"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"x"}]}`), Meter: &bridges.Meter{},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != seed {
				select {
				case others <- address:
				default:
				}
				return nil, errDenied
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
	k, problems := kafka.Kind{}.Compile(c)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	defer k.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
	if err := k.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batch := []*bridges.Entry{}
	for i := range 30 {
		e := &bridges.Entry{ID: uint64(i + 1), Mapping: "m"}
		e.Topic, e.Payload = fmt.Sprint("a/", i), []byte{byte(i)} // for all partitions, some of them at other brokers
		batch = append(batch, e)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Deliver(ctx, batch, make([]bridges.Result, len(batch))) //nolint:errcheck // it ends with the context
	}()
	select {
	case <-others:
	case <-done:
		t.Fatal("the batch is done with, having dialled the configured broker only")
	}
	cancel()
	<-done
}
