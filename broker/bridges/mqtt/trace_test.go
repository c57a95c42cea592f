package mqtt

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"signalbox/broker/mqtt/packet"
)

func sample(visited, pending int) *trace {
	t := &trace{id: traceID{1, 2, 3}, topic: tokenOf("a/b")}
	for i := range visited {
		t.visited = append(t.visited, tokenOf("v"+string(rune('a'+i))))
	}
	for i := range pending {
		t.pending = append(t.pending, tokenOf("p"+string(rune('a'+i))))
	}
	return t
}

func same(a, b *trace) bool {
	return a.id == b.id && a.topic == b.topic && slices.Equal(a.visited, b.visited) && slices.Equal(a.pending, b.pending)
}

// TestTrace appends a trace to other properties and splits it off again.
func TestTrace(t *testing.T) {
	t.Parallel()
	others := []byte{1, 1, 3, 0, 1, 'x', 0x26, 0, 1, 'k', 0, 1, 'v'}
	for _, give := range []*trace{sample(1, 0), sample(3, 5), sample(maxVisited, maxPending)} {
		p := give.join(others)
		p = append(p, 0x26, 0, 1, 'l', 0, 0)
		got, rest := splitTrace(p)
		if got == nil || !same(got, give) || !bytes.Equal(rest, append(slices.Clone(others), 0x26, 0, 1, 'l', 0, 0)) {
			t.Errorf("got %+v, % x", got, rest)
		}
	}
	twice := sample(2, 2).join(sample(1, 0).join(others))
	if got, rest := splitTrace(twice); got == nil || !same(got, sample(1, 0)) || !bytes.Equal(rest, others) {
		t.Errorf("twice: got %+v, % x", got, rest)
	}
}

// TestForgedTrace checks that malformed traces are ignored.
func TestForgedTrace(t *testing.T) {
	t.Parallel()
	good := string(sample(2, 1).append(nil))
	for name, value := range map[string]string{
		"empty": "", "another version": "2" + good[1:], "cut": good[:len(good)-1], "no broker": string(sample(0, 1).append(nil)),
		"too many brokers": string(sample(maxVisited+1, 0).append(nil)), "too many targets": string(sample(1, maxPending+1).append(nil)),
		"a line break": good[:5] + "\n" + good[6:], "more": good + ".", "no base64": strings.Replace(good, "A", "*", 1), "short": "1.", "dots": "1." + strings.Repeat(".", 40),
	} {
		if got, ok := parseTrace(value); ok {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	// A malformed trace is removed, and the message treated as one without.
	p := append(slices.Clone(tracePropertyStart), 0, 3, 'b', 'a', 'd')
	if got, rest := splitTrace(p); got != nil || len(rest) != 0 {
		t.Errorf("got %+v, % x", got, rest)
	}
}

// FuzzSplitTrace splits arbitrary properties.
func FuzzSplitTrace(f *testing.F) {
	f.Add(sample(2, 3).join([]byte{1, 1}))
	f.Add(append(slices.Clone(tracePropertyStart), 0, 3, 'b', 'a', 'd'))
	f.Add([]byte{3, 0, byte(len(packet.BridgeProperty) + 3)})
	f.Add(append([]byte{9, 0, 30}, tracePropertyStart...))
	f.Fuzz(func(t *testing.T, p []byte) {
		before := slices.Clone(p)
		got, rest := splitTrace(p)
		if !bytes.Equal(p, before) {
			t.Fatal("the properties were changed")
		}
		if got == nil {
			return
		}
		again, left := splitTrace(got.join(rest))
		if again == nil || !same(again, got) || !bytes.Equal(left, rest) {
			t.Errorf("got %+v, % x, then %+v, % x", got, rest, again, left)
		}
	})
}

// TestDedupCache checks that only the oldest messages are forgotten.
func TestDedupCache(t *testing.T) {
	t.Parallel()
	var m dedupCache
	at := func(i int) dedupKey { return dedupKey{id: traceID{byte(i >> 16), byte(i >> 8), byte(i)}} }
	for i := range 2*minRemembered + 1 {
		if !m.add(at(i)) {
			t.Fatalf("%d is not new", i)
		}
		if i >= minRemembered-1 && m.add(at(i-minRemembered+1)) {
			t.Fatalf("%d was forgotten after %d", i-minRemembered+1, i)
		}
	}
	if !m.add(at(0)) {
		t.Error("the first is still remembered")
	}
	m.remove(at(0))
	if !m.add(at(0)) {
		t.Error("what was taken back is remembered")
	}
}

// TestMaxVisited checks that a message that has visited too many brokers is not forwarded.
func TestMaxVisited(t *testing.T) {
	t.Parallel()
	full := sample(maxVisited, 0)
	if full.addVisited(tokenOf("another")) || !full.addVisited(full.visited[3]) {
		t.Error("the bound does not hold")
	}
}
