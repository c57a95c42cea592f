package streams

import (
	"slices"
	"strconv"
	"strings"

	"signalbox/broker"
)

// findLoop returns the path on which a message that changed republishes comes
// back to it through active streams, or nil if there is none. The path
// alternates between names of streams and the topics that they publish to, as
// in [a x/y b z a], and is a shortest one. The stream named like changed in
// active counts as replaced by it.
func findLoop(active []Definition, changed Definition) []string {
	if !changed.Active || changed.TargetTopic == "" {
		return nil
	}
	return findPath(active, changed, changed.TargetTopic)
}

// findReplayLoop returns the path on which a message that is replayed to a
// topic comes back to its stream d, in the same form as [findLoop]. An inactive
// stream takes no messages.
func findReplayLoop(active []Definition, d Definition, topic string) []string {
	if !d.Active {
		return nil
	}
	return findPath(active, d, topic)
}

// loopError returns the error for a path from [findLoop] or [findReplayLoop]: a
// stream would take its own messages again.
func loopError(op string, chain []string) error {
	if op == opReplay {
		return invalid(op, []broker.Field{{Path: "replaytopic", Msg: "leads back to the stream by " + formatChain(chain) +
			": its messages would be kept and replayed twice; choose another topic, or disable the stream"}})
	}
	return invalid(op, []broker.Field{{Path: "targettopic", Msg: "closes the loop " + formatChain(chain) +
		": choose another source or target, or disable one of these streams"}})
}

// formatChain formats a path of names and topics, shortened in the middle.
func formatChain(chain []string) string {
	const most = 21
	parts := make([]string, 0, min(len(chain), most+1))
	for i, s := range chain {
		switch {
		case len(chain) <= most || i < most/2 || i >= len(chain)-most/2:
			parts = append(parts, strconv.Quote(s))
		case i == most/2:
			parts = append(parts, "…")
		}
	}
	return strings.Join(parts, " → ")
}

// hop is a stream on the path of a message, and the hop before it.
type hop struct {
	stream *Definition
	topic  string // that it publishes to
	from   *hop
}

// findPath searches for a shortest path from topic, to which d publishes, to
// the source of d. It visits each stream once, so that its cost is linear in
// their number.
func findPath(active []Definition, d Definition, topic string) []string {
	if !mayReturn(active, &d, topic) {
		return nil
	}
	var sources sourceIndex
	for i := range active {
		if s := &active[i]; s.Active && s.TargetTopic != "" && s.StreamName != d.StreamName {
			sources.add(s.SourceTopic, s)
		}
	}
	for queue := []*hop{{stream: &d, topic: topic}}; len(queue) > 0; queue = queue[1:] {
		h := queue[0]
		if broker.FilterMatches(d.SourceTopic, h.topic) {
			return append(h.path(), d.StreamName)
		}
		for _, s := range sources.remove(h.topic) {
			queue = append(queue, &hop{stream: s, topic: s.TargetTopic, from: h})
		}
	}
	return nil
}

// mayReturn reports whether the source of d matches any topic that d or an
// active stream publishes to. Usually it does not, and the search is skipped.
func mayReturn(active []Definition, d *Definition, topic string) bool {
	return broker.FilterMatches(d.SourceTopic, topic) || slices.ContainsFunc(active, func(s Definition) bool {
		return s.Active && broker.FilterMatches(d.SourceTopic, s.TargetTopic)
	})
}

// path returns the streams and topics from the first hop to this one.
func (h *hop) path() []string {
	var p []string
	for ; h != nil; h = h.from {
		p = append(p, h.topic, h.stream.StreamName)
	}
	slices.Reverse(p)
	return p
}

// sourceIndex finds the streams whose source matches a topic, each of them
// once. The zero value is empty.
type sourceIndex struct {
	nodes []streamsAt
	edges map[edge]int // to the child's index in nodes
}

// streamsAt are the streams whose source filter ends at a node.
type streamsAt struct {
	here []*Definition
	rest []*Definition // those whose filter continues with "#"
}

// edge leads from a node to its child.
type edge struct {
	from  int
	level string
}

// add adds a stream by its source.
func (x *sourceIndex) add(filter string, s *Definition) {
	if x.edges == nil {
		x.nodes, x.edges = make([]streamsAt, 1), make(map[edge]int)
	}
	n := 0
	for level := range strings.SplitSeq(filter, "/") {
		if level == "#" {
			x.nodes[n].rest = append(x.nodes[n].rest, s)
			return
		}
		n = x.child(n, level)
	}
	x.nodes[n].here = append(x.nodes[n].here, s)
}

// child returns the child of a node, and creates it if necessary.
func (x *sourceIndex) child(from int, level string) int {
	e := edge{from, level}
	n, ok := x.edges[e]
	if !ok {
		n = len(x.nodes)
		x.nodes, x.edges[e] = append(x.nodes, streamsAt{}), n
	}
	return n
}

// remove removes and returns the streams whose source matches a topic. Topics
// of streams do not begin with "$", so wildcards match every first level.
func (x *sourceIndex) remove(topic string) []*Definition {
	if len(x.nodes) == 0 {
		return nil
	}
	return x.collect(0, topic, true, nil)
}

// removeOne is remove for one of these streams, and returns nil if there is none.
func (x *sourceIndex) removeOne(topic string) *Definition {
	if len(x.nodes) == 0 {
		return nil
	}
	return x.takeOne(0, topic, true)
}

// takeOne is collect for one stream.
func (x *sourceIndex) takeOne(n int, rest string, more bool) *Definition {
	at := &x.nodes[n]
	if d := pop(&at.rest); d != nil {
		return d
	}
	if !more {
		return pop(&at.here)
	}
	level, rest, more := strings.Cut(rest, "/")
	for _, l := range [...]string{level, "+"} {
		if c, ok := x.edges[edge{n, l}]; ok {
			if d := x.takeOne(c, rest, more); d != nil {
				return d
			}
		}
	}
	return nil
}

func pop(list *[]*Definition) *Definition {
	n := len(*list)
	if n == 0 {
		return nil
	}
	d := (*list)[n-1]
	*list = (*list)[:n-1]
	return d
}

// collect removes the streams below a node that match the levels in rest; more
// is false if there are no levels left. A "#" also matches the parent level
// [MQTT-4.7.1-2].
func (x *sourceIndex) collect(n int, rest string, more bool, found []*Definition) []*Definition {
	at := &x.nodes[n]
	found, at.rest = append(found, at.rest...), nil
	if !more {
		found, at.here = append(found, at.here...), nil
		return found
	}
	level, rest, more := strings.Cut(rest, "/")
	for _, l := range [...]string{level, "+"} {
		if c, ok := x.edges[edge{n, l}]; ok {
			found = x.collect(c, rest, more, found)
		}
	}
	return found
}
