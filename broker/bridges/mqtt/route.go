package mqtt

import (
	"fmt"
	"strings"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/mqtt/client"
)

// maxTopic is the maximum length of a topic in bytes [MQTT-1.5.3].
const maxTopic = 65535

// route is a compiled topic mapping: local+pattern here corresponds to remote+pattern at the
// other broker.
type route struct {
	name          string
	patterns      []string
	local, remote string // prefixes
	out, in       bool
	qos           byte
	retain        bool
}

// compile compiles a topic mapping, and reports all of its problems.
func (s *mappingSpec) compile(path string, p *bridges.Problems) *route {
	r := &route{name: s.Name, patterns: s.MQTTTopics, local: s.LocalPrefix, remote: s.RemotePrefix, qos: 2, retain: true}
	r.out, r.in = s.Direction != "in", s.Direction == "in" || s.Direction == "both"
	if s.QoS != nil {
		r.qos = byte(*s.QoS)
	}
	if s.Retain != nil {
		r.retain = *s.Retain
	}
	for member, prefix := range map[string]string{"localPrefix": r.local, "remotePrefix": r.remote} {
		if strings.ContainsAny(prefix, "+#\x00") {
			p.Add(path+"."+member, "must not hold + or #")
			return r
		}
	}
	for i, pattern := range r.patterns {
		if why := r.patternProblem(pattern); why != "" {
			p.Add(fmt.Sprintf("%s.mqttTopics[%d]", path, i), why)
		}
	}
	return r
}

// patternProblem returns why a pattern cannot be used, "" if it can.
func (r *route) patternProblem(pattern string) string {
	local, remote := r.local+pattern, r.remote+pattern
	switch {
	case !broker.ValidFilter(local) || len(local) > maxTopic:
		return "is not a valid topic filter here, with localPrefix before it"
	case !broker.ValidFilter(remote) || len(remote) > maxTopic:
		return "is not a valid topic filter at the other broker, with remotePrefix before it"
	case strings.HasPrefix(local, "$share/"), strings.HasPrefix(remote, "$share/"):
		return "a shared subscription cannot be led over a bridge: give the filter in it"
	case strings.HasPrefix(local, "$"):
		return "topics with $ cannot be taken here, nor published"
	case r.out && strings.HasPrefix(remote, "$"):
		return "topics with $ cannot be published at the other broker"
	}
	return ""
}

// filters returns the topic filters with a prefix.
func (r *route) filters(prefix string) []string {
	list := make([]string, 0, len(r.patterns))
	for _, pattern := range r.patterns {
		list = append(list, prefix+pattern)
	}
	return list
}

// toRemote returns the topic at the other broker for a local topic.
func (r *route) toRemote(topic string) (string, bool) { return swapPrefix(topic, r.local, r.remote) }

// toLocal returns the local topic for a topic at the other broker.
func (r *route) toLocal(topic string) (string, bool) { return swapPrefix(topic, r.remote, r.local) }

func swapPrefix(topic, from, to string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, from)
	renamed := to + rest
	return renamed, ok && renamed != "" && len(renamed) <= maxTopic && renamed[0] != '$'
}

// matchesLocal reports whether a local topic matches the route.
func (r *route) matchesLocal(topic string) bool { return r.firstMatch(r.local, topic) >= 0 }

// firstMatch returns the index of the first pattern that a topic matches, -1 for none.
func (r *route) firstMatch(prefix, topic string) int {
	for i, pattern := range r.patterns {
		if client.Covers(prefix+pattern, topic) {
			return i
		}
	}
	return -1
}

// overlaps reports whether another route sends or receives some message in the same direction to
// the same topic.
func (r *route) overlaps(other *route) bool {
	if !(r.out && other.out || r.in && other.in) || len(r.remote)-len(r.local) != len(other.remote)-len(other.local) {
		return false
	}
	for _, a := range r.patterns {
		for _, b := range other.patterns {
			if client.Overlap(r.local+a, other.local+b) && client.Overlap(r.remote+a, other.remote+b) {
				return true
			}
		}
	}
	return false
}

// mayLoop reports whether a message that the route sends may be received by another route.
func (r *route) mayLoop(other *route) bool {
	if !r.out || !other.in {
		return false
	}
	for _, a := range r.patterns {
		for _, b := range other.patterns {
			if client.Overlap(r.remote+a, other.remote+b) {
				return true
			}
		}
	}
	return false
}
