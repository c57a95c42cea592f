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

// sink is a broker that takes everything and counts it.
type sink struct {
	desk
	n atomic.Int64
}

func (s *sink) Publish(_ context.Context, list []messaging.Message) (done, refused int, err error) {
	s.n.Add(int64(len(list)))
	return len(list), 0, nil
}

// void is a store whose logs keep nothing and settle at once.
type void struct{ streams.Store }

func (v void) Open(ctx context.Context, id int64) (streams.Log, error) {
	l, err := v.Store.Open(ctx, id)
	return voidLog{l}, err
}

type voidLog struct{ streams.Log }

func (voidLog) Append(_ context.Context, _ []messaging.Message, _ []byte, settle func(error)) error {
	settle(nil)
	return nil
}

// BenchmarkPipeline takes messages, and publishes or keeps them nowhere: what a
// message costs on its way through a stream.
func BenchmarkPipeline(b *testing.B) {
	const sum = `{"select":[{"source":"[v]","target":"[v]"},{"source":"[v]","target":"[sum]","function":{"name":"sum"}}],"where":[{"operator":">","left":"[v]","right":0}]}`
	for name, s := range map[string]broker.StreamSpec{
		"republish": spec(to("out")),
		"persist":   spec(persist),
		"both":      spec(to("out"), persist),
		"query":     spec(to("out"), asking(sum)),
	} {
		for _, burst := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/%d", name, burst), func(b *testing.B) { pipeline(b, s, burst) })
		}
	}
}

// pipeline sends messages in bursts, each after the one before has come out.
func pipeline(b *testing.B, s broker.StreamSpec, burst int) {
	disk := open(b, b.TempDir())
	b.Cleanup(func() { must(b, disk.Close(context.Background())) })
	out := &sink{}
	e := streams.NewHost(streams.DefaultConfig(), void{disk}, slog.New(slog.DiscardHandler)).Open("b", out)
	b.Cleanup(func() { must(b, e.Close(context.Background())) })
	must(b, e.CreateStream(b.Context(), s))
	in := out.subs[0].in
	m := messaging.Message{Topic: "in", Payload: []byte(`{"v":12.5,"unit":"kW","place":"hall 3","state":"running"}`), QoS: 1}
	arrived := make(chan struct{}, burst)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; sent += burst {
		for range burst {
			in.Take(m, arrival(arrived))
		}
		for range burst {
			<-arrived
		}
	}
}

// arrival is a CommitNotifier that tells a channel.
type arrival chan struct{}

func (a arrival) Committed(error) { a <- struct{}{} }
