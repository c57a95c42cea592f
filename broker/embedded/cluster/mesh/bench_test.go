package mesh_test

import (
	"bytes"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/mqtt/packet"
)

// BenchmarkMessage measures the CPU time of a message that stays on its node and of one sent
// to another node, of both nodes and the clients together.
func BenchmarkMessage(b *testing.B) {
	for _, size := range []int{100, 4096} {
		for _, qos := range []byte{0, 1} {
			for _, to := range []int{1, 2} {
				way := map[int]string{1: "local", 2: "remote"}[to]
				b.Run(fmt.Sprintf("%s/qos %d/%d bytes", way, qos, size), func(b *testing.B) {
					_, n := startNodes(b, 2, overTCP, func(f *network) { f.unlimitedInflight = true })
					stream(b, n[0], n[to-1], qos, size)
				})
			}
		}
	}
}

// stream publishes at one node and receives at another.
func stream(b *testing.B, from, to *node, qos byte, size int) {
	const batch, window = 50, 20 // batches in flight
	reader, c := to.connect("reader", false), from.connect("c", false)
	reader.Subscribe("bench/topic", qos)
	o := packet.Outgoing{Topic: "bench/topic", Payload: make([]byte, size), QoS: qos, PacketID: 1}
	one := packet.AppendPublish(nil, packet.V5, &o)
	credit, read := make(chan struct{}, window), make(chan error, 1)
	go func() {
		buf, acks := make([]byte, batch*len(one)), []byte{}
		for range b.N/batch + 1 {
			if _, err := io.ReadFull(reader.In, buf); err != nil {
				read <- err
				return
			}
			<-credit
			acks = acks[:0]
			for p := buf; qos > 0 && len(p) > 0; p = p[len(one):] {
				id := packet.PacketIDOffset(p)
				acks = append(acks, packet.TypePuback<<4, 2, p[id], p[id+1])
			}
			reader.Write(acks) //nolint:errcheck // reading fails as well
		}
		read <- nil
	}()
	if qos > 0 {
		go io.Copy(io.Discard, c.In) //nolint:errcheck // until the connection ends
	}
	packets := bytes.Repeat(one, batch)
	before := cpu(b)
	b.ResetTimer()
	for range b.N/batch + 1 {
		credit <- struct{}{}
		c.Send(packets)
	}
	check(b, <-read)
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu returns the CPU time used by the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
