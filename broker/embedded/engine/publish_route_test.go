package engine

import (
	"strconv"
	"strings"
	"testing"
)

// TestRemember bounds the cached routes of a connection, in number and size; the latest is
// always cached.
func TestRemember(t *testing.T) {
	t.Parallel()
	for name, topic := range map[string]string{"many": "t", "long": strings.Repeat("t", 60_000)} {
		c := &Conn{}
		for i := range 3 * maxKnown {
			r := &route{topic: topic + strconv.Itoa(i)}
			c.remember(r)
			if c.in.known[r.topic] != r {
				t.Fatalf("%s: the latest topic is not known", name)
			}
			if size := len(c.in.known) * len(topic); len(c.in.known) > maxKnown || size > maxKnownBytes+2*len(topic) {
				t.Fatalf("%s: %d topics are known, in %d bytes", name, len(c.in.known), size)
			}
		}
	}
	c := &Conn{}
	c.remember(&route{topic: "crowd", to: make([]recipient, 1000)})
	c.remember(&route{topic: "next"})
	if len(c.in.known) != 1 {
		t.Error("recipients take no room")
	}
}
