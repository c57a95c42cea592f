package topics

import "strings"

// sharePrefix begins the filter of a shared subscription [MQTT-4.8.2-1].
const sharePrefix = "$share/"

// unshared gives the filter that topics are compared with, and tells whether
// the whole one is that of a shared subscription.
func unshared(filter string) (inner string, shared bool) {
	rest, ok := strings.CutPrefix(filter, sharePrefix)
	if !ok {
		return filter, false
	}
	if _, inner, ok = strings.Cut(rest, "/"); !ok {
		return filter, false
	}
	return inner, true
}

// wild tells whether a filter holds a wildcard. A "+" or "#" can be nothing
// else in a valid one.
func wild(filter string) bool { return strings.ContainsAny(filter, "+#") }

// internal tells whether a topic is hidden from wildcards in the first level
// [MQTT-4.7.2-1].
func internal(topic string) bool { return topic != "" && topic[0] == '$' }
