package streams

import (
	"cmp"
	"context"
	"slices"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Flow is where an active stream takes messages from, and the topic to which it publishes them.
type Flow struct {
	Stream string `json:"stream"`
	Source string `json:"source"`
	Target string `json:"target"`
}

// PeerBroker is a [messaging.Broker] that passes on what streams publish to the streams of other
// engines, and receives what those publish.
type PeerBroker interface {
	messaging.Broker
	// PeerFlows returns the flows of these engines, as far as they are known in time. The names of
	// their streams show where they are.
	PeerFlows(ctx context.Context) []Flow
}

// Flows returns the flows of the active streams that publish.
func (e *Engine) Flows() []Flow {
	active := e.active("")
	flows := make([]Flow, 0, len(active))
	for _, d := range active {
		if d.TargetTopic != "" {
			flows = append(flows, Flow{Stream: d.StreamName, Source: d.SourceTopic, Target: d.TargetTopic})
		}
	}
	return flows
}

// PeerLoop returns a loop through a stream of this engine and streams of others, as a path of names
// and topics, and "" if there is none. Such a loop can be closed by streams that become active at the
// same time, or before the engines knew of each other.
func (e *Engine) PeerLoop(peers []Flow) string {
	if len(peers) == 0 {
		return ""
	}
	all := append(definitions(peers), e.active("")...)
	slices.SortFunc(all, func(a, b Definition) int { return cmp.Compare(a.StreamName, b.StreamName) }) // so that it is the same again
	return formatChain(findAnyLoop(all))
}

// peerStreams returns the active streams of other engines.
func (e *Engine) peerStreams(ctx context.Context) []Definition {
	if b, ok := e.messaging.(PeerBroker); ok {
		return definitions(b.PeerFlows(ctx))
	}
	return nil
}

// definitions returns flows as streams.
func definitions(flows []Flow) []Definition {
	all := make([]Definition, len(flows))
	for i, f := range flows {
		all[i].Stream = broker.Stream{StreamName: f.Stream, SourceTopic: f.Source, TargetTopic: f.Target, Active: true}
	}
	return all
}

// maxLoop is how many streams a loop that findAnyLoop finds has at most. It bounds the cost.
const maxLoop = 1000

// findAnyLoop returns the path of a loop through active streams, in the form of [findLoop] and not always
// a shortest one, or nil if there is none.
func findAnyLoop(active []Definition) []string {
	s := loopSearch{begun: map[*Definition]bool{}}
	for i := range active {
		if d := &active[i]; d.Active && d.TargetTopic != "" {
			s.rest.add(d.SourceTopic, d)
		}
	}
	for i := range active {
		if d := &active[i]; d.Active && d.TargetTopic != "" && !s.begun[d] {
			if loop := s.visit(d); loop != nil {
				return loop
			}
		}
	}
	return nil
}

// loopSearch is a depth-first search for a loop, which visits each stream once.
type loopSearch struct {
	rest  sourceIndex // streams that were not visited, and some that were
	begun map[*Definition]bool
	path  []*Definition // that the present stream is reached by
}

// visit returns a loop on the paths that begin with the present path and d.
func (s *loopSearch) visit(d *Definition) []string {
	s.begun[d] = true
	s.path = append(s.path, d)
	near := s.path[max(0, len(s.path)-maxLoop):]
	for i, p := range near {
		if broker.FilterMatches(p.SourceTopic, d.TargetTopic) {
			return loopPath(near[i:])
		}
	}
	for next := s.rest.removeOne(d.TargetTopic); next != nil; next = s.rest.removeOne(d.TargetTopic) {
		if s.begun[next] {
			continue
		}
		if loop := s.visit(next); loop != nil {
			return loop
		}
	}
	s.path = s.path[:len(s.path)-1]
	return nil
}

// loopPath returns the path through streams, of which the last one publishes to the first one.
func loopPath(streams []*Definition) (path []string) {
	for _, d := range streams {
		path = append(path, d.StreamName, d.TargetTopic)
	}
	return append(path, streams[0].StreamName)
}
