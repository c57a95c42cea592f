package engine_test

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/mqtt/packet"
)

// BenchmarkMessage measures a message from one client to others, including the clients,
// which do as little as possible.
func BenchmarkMessage(b *testing.B) {
	for _, readers := range []int{1, 10} {
		for _, qos := range []byte{0, 1} {
			b.Run(fmt.Sprintf("%d readers/qos %d", readers, qos), func(b *testing.B) { benchMessage(b, readers, qos) })
		}
	}
}

func benchMessage(b *testing.B, readers int, qos byte) {
	const batch, window = 50, 20 // batches in flight
	broker := start(b, b.TempDir())
	c := broker.Connect(fresh("c"))
	if qos > 0 {
		go io.Copy(io.Discard, c.In) //nolint:errcheck // until the end
	}
	one := packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "bench/topic", Payload: make([]byte, 100), QoS: qos, PacketID: 1})
	arrived := packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "bench/topic", Payload: make([]byte, 100)})
	credit, read := make(chan struct{}, window), make(chan error, readers)
	for i := range readers {
		r := broker.Connect(fresh(fmt.Sprint("reader", i)))
		r.Subscribe("bench/topic", 0)
		go func() {
			buf := make([]byte, batch*len(arrived))
			for range b.N/batch + 1 {
				if _, err := io.ReadFull(r.In, buf); err != nil {
					read <- err
					return
				}
				if i == 0 {
					<-credit
				}
			}
			read <- nil
		}()
	}
	var packets []byte
	for range batch {
		packets = append(packets, one...)
	}
	before := cpu(b)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N/batch + 1 {
		credit <- struct{}{}
		c.Send(packets)
	}
	for range readers {
		check(b, <-read)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu returns the processor time of the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
