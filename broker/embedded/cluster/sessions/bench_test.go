package sessions_test

import (
	"fmt"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// BenchmarkConnect measures what a claim adds to a CONNECT, network excluded.
func BenchmarkConnect(b *testing.B) {
	for _, nodes := range []int{0, 1, 3, 5, 7} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := newClusterOverTCP(b, max(nodes, 1))
			if nodes == 0 { // no claims at all
				c.nodes[0].sessions.Close()
			}
			h := packet.Connect{ClientID: "c", CleanStart: true}
			for b.Loop() {
				s, err := c.nodes[0].TryConnect(h)
				check(b, err)
				s.Close()
			}
		})
	}
}

// BenchmarkMove measures moving a session with all its stored messages to another node.
func BenchmarkMove(b *testing.B) {
	for _, messages := range []int{0, 1000} {
		b.Run(fmt.Sprintf("messages=%d", messages), func(b *testing.B) {
			c := newClusterOverTCP(b, 3)
			s := c.nodes[0].Connect(keeps("c"))
			s.Subscribe("a", 1)
			s.Close()
			for range messages {
				check(b, c.nodes[0].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: make([]byte, 100)}))
			}
			h := keeps("c")
			h.ReceiveMaximum = 1
			for i := 1; b.Loop(); i++ {
				s, err := c.nodes[i%3].TryConnect(h)
				check(b, err)
				s.Close()
			}
		})
	}
}
