package streams

import (
	"slices"
	"strconv"
	"strings"

	"signalbox/broker"
)

// loop gives the way on which a message that changed republishes comes back to
// it through active streams, nil where there is none: names of streams and the
// topics they publish to by turns, as in [a x/y b z a]. It is a shortest one.
// What active holds under the name of changed counts as replaced by it.
func loop(active []Definition, changed Definition) []string {
	if !changed.Active || changed.TargetTopic == "" {
		return nil
	}
	return wayBack(active, changed, changed.TargetTopic)
}

// replayLoop gives the way on which a message that is replayed to a topic comes
// back to its stream d, like [loop]. An inactive stream takes no message.
func replayLoop(active []Definition, d Definition, topic string) []string {
	if !d.Active {
		return nil
	}
	return wayBack(active, d, topic)
}

// loopError refuses an operation that would have a stream take its own messages
// again, in a chain that [loop] or [replayLoop] gave.
func loopError(op string, chain []string) error {
	if op == opReplay {
		return refuse(op, []broker.Field{{Path: "replaytopic", Msg: "leads back to the stream by " + drawn(chain) +
			": its messages would be kept and replayed twice; choose another topic, or disable the stream"}})
	}
	return refuse(op, []broker.Field{{Path: "targettopic", Msg: "closes the loop " + drawn(chain) +
		": choose another source or target, or disable one of these streams"}})
}

// drawn draws a chain of names and topics, shortened in the middle.
func drawn(chain []string) string {
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

// hop is a stream that a message reaches on its way, and the hop before.
type hop struct {
	stream *Definition
	topic  string // to which it publishes
	from   *hop
}

// wayBack looks for a way from topic, to which d publishes, to the source of d,
// in order of length. It comes to each stream once, so that its cost grows with
// their number.
func wayBack(active []Definition, d Definition, topic string) []string {
	if !returns(active, &d, topic) {
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
		if matches(d.SourceTopic, h.topic) {
			return append(h.path(), d.StreamName)
		}
		for _, s := range sources.take(h.topic) {
			queue = append(queue, &hop{stream: s, topic: s.TargetTopic, from: h})
		}
	}
	return nil
}

// returns tells whether the source of d takes anything that d or an active
// stream publishes; mostly none does, and the rest of the search is spared.
func returns(active []Definition, d *Definition, topic string) bool {
	return matches(d.SourceTopic, topic) || slices.ContainsFunc(active, func(s Definition) bool {
		return s.Active && matches(d.SourceTopic, s.TargetTopic)
	})
}

// path gives the streams and topics from the first hop to this one.
func (h *hop) path() []string {
	var p []string
	for ; h != nil; h = h.from {
		p = append(p, h.topic, h.stream.StreamName)
	}
	slices.Reverse(p)
	return p
}

// sourceIndex finds the streams that take a topic, each of them once. The zero
// value is empty.
type sourceIndex struct {
	nodes []sources
	edges map[edge]int // to the child's place in nodes
}

// sources are the streams whose source ends at a node, by the levels that lead
// to it.
type sources struct {
	here []*Definition
	rest []*Definition // those that go on with "#"
}

// edge is the way from a node to its child.
type edge struct {
	from  int
	level string
}

// add adds a stream by its source.
func (x *sourceIndex) add(filter string, s *Definition) {
	if x.edges == nil {
		x.nodes, x.edges = make([]sources, 1), make(map[edge]int)
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

// child gives the child of a node, made if need be.
func (x *sourceIndex) child(from int, level string) int {
	e := edge{from, level}
	n, ok := x.edges[e]
	if !ok {
		n = len(x.nodes)
		x.nodes, x.edges[e] = append(x.nodes, sources{}), n
	}
	return n
}

// take takes out the streams whose source matches a topic. No topic of a stream
// begins with "$", so wildcards match every first level.
func (x *sourceIndex) take(topic string) []*Definition {
	if len(x.nodes) == 0 {
		return nil
	}
	return x.collect(0, topic, true, nil)
}

// collect takes out what goes on from a node and matches the levels in rest, if
// there are more of them. A "#" stands for none as well [MQTT-4.7.1-2].
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

// matches tells whether a valid topic is one of a valid filter's
// [MQTT-4.7.1]. A wildcard in the first level takes nothing that begins with
// "$" [MQTT-4.7.2-1]. There are none in the empty topic.
func matches(filter, topic string) bool {
	if topic == "" || topic[0] == '$' && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		want, wanted, wantMore := strings.Cut(filter, "/")
		have, rest, more := strings.Cut(topic, "/")
		switch {
		case want == "#":
			return true
		case want != "+" && want != have:
			return false
		case !more:
			return !wantMore || wanted == "#"
		case !wantMore:
			return false
		}
		filter, topic = wanted, rest
	}
}
