package streams_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// countingBroker is a broker that takes everything and counts it.
type countingBroker struct {
	fakeBroker
	n atomic.Int64
}

func (s *countingBroker) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	s.n.Add(int64(len(list)))
	return len(list), 0, nil
}

// discardStore is a store whose logs discard messages and report them as
// committed at once.
type discardStore struct{ streams.Store }

func (v discardStore) Open(ctx context.Context, id int64) (streams.Log, error) {
	l, err := v.Store.Open(ctx, id)
	return discardLog{l}, err
}

type discardLog struct{ streams.Log }

func (discardLog) Append(_ context.Context, _ []messaging.Message, _ []byte, committed func(error)) error {
	committed(nil)
	return nil
}

// BenchmarkPipeline takes messages, and publishes or discards them: the cost of
// a message on its way through a stream.
func BenchmarkPipeline(b *testing.B) {
	const sum = `{"select":[{"source":"[v]","target":"[v]"},{"source":"[v]","target":"[sum]","function":{"name":"sum"}}],"where":[{"operator":">","left":"[v]","right":0}]}`
	for name, s := range map[string]broker.StreamSpec{
		"republish": spec(to("out")),
		"persist":   spec(persist),
		"both":      spec(to("out"), persist),
		"query":     spec(to("out"), withQuery(sum)),
	} {
		for _, burst := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/%d", name, burst), func(b *testing.B) { pipeline(b, s, burst) })
		}
	}
}

// pipeline sends messages in bursts, each after the outcome of the one before.
func pipeline(b *testing.B, s broker.StreamSpec, burst int) {
	disk := open(b, b.TempDir())
	b.Cleanup(func() { must(b, disk.Close(context.Background())) })
	out := &countingBroker{}
	e := streams.NewHost(streams.DefaultConfig(), discardStore{disk}, slog.New(slog.DiscardHandler)).Open("b", out)
	b.Cleanup(func() { must(b, e.Close(context.Background())) })
	must(b, e.CreateStream(b.Context(), s))
	in := out.subs[0].in
	m := messaging.Message{Topic: "in", Payload: []byte(`{"v":12.5,"unit":"kW","place":"hall 3","state":"running"}`), QoS: 1}
	arrived := make(chan struct{}, burst)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; sent += burst {
		for range burst {
			in.Take(m, channelNotifier(arrived))
		}
		for range burst {
			<-arrived
		}
	}
}

// channelNotifier is a CommitNotifier that sends to a channel.
type channelNotifier chan struct{}

func (a channelNotifier) Committed(error) { a <- struct{}{} }
