package mesh_test

import (
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/wire"
)

// BenchmarkMessage tells what a message costs that stays on its node, and one
// that crosses to another: in all of CPU time, both nodes and the clients (which
// do as little as they can) included.
func BenchmarkMessage(b *testing.B) {
	for _, size := range []int{100, 4096} {
		for _, qos := range []byte{0, 1} { // as it is published; it is read at QoS 0
			for _, to := range []int{1, 2} {
				way := map[int]string{1: "stays", 2: "crosses"}[to]
				b.Run(fmt.Sprintf("%s/qos %d/%d bytes", way, qos, size), func(b *testing.B) {
					_, n := weave(b, 2)
					stream(b, n[0], n[to-1], qos, size)
				})
			}
		}
	}
}

// window is how many messages are under way at once.
const window = 1000

// stream publishes at one node and reads at another.
func stream(b *testing.B, from, to *node, qos byte, size int) {
	reader, c := to.connect("reader", false), from.connect("c", false)
	reader.subscribe("bench/topic", 0)
	one := wire.AppendPublish(nil, wire.V5, &wire.Outgoing{Topic: "bench/topic", Payload: make([]byte, size), QoS: qos, PacketID: 1})
	arrived := wire.AppendPublish(nil, wire.V5, &wire.Outgoing{Topic: "bench/topic", Payload: make([]byte, size)})
	credit := make(chan struct{}, window/50)
	for range cap(credit) {
		credit <- struct{}{}
	}
	if qos > 0 {
		go io.Copy(io.Discard, c.in) //nolint:errcheck // until the end
	}
	read := make(chan error, 1)
	go func() {
		buf := make([]byte, 50*len(arrived))
		for range b.N/50 + 1 {
			if _, err := io.ReadFull(reader.in, buf); err != nil {
				read <- err
				return
			}
			credit <- struct{}{}
		}
		read <- nil
	}()
	var batch []byte
	for range 50 {
		batch = append(batch, one...)
	}
	before := cpu(b)
	b.ResetTimer()
	for range b.N/50 + 1 {
		<-credit
		c.send(batch)
	}
	check(b, <-read)
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the time that the process has had of all processors.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
