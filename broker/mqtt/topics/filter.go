package topics

import "strings"

// sharePrefix begins the filter of a shared subscription [MQTT-4.8.2-1].
const sharePrefix = "$share/"

// innerFilter returns the filter that topics are matched with, and reports whether filter is
// that of a shared subscription.
func innerFilter(filter string) (inner string, shared bool) {
	rest, ok := strings.CutPrefix(filter, sharePrefix)
	if !ok {
		return filter, false
	}
	if _, inner, ok = strings.Cut(rest, "/"); !ok {
		return filter, false
	}
	return inner, true
}

// hasWildcard reports whether a valid filter contains a wildcard.
func hasWildcard(filter string) bool { return strings.ContainsAny(filter, "+#") }

// isDollarTopic reports whether wildcards in the first level do not match a topic
// [MQTT-4.7.2-1].
func isDollarTopic(topic string) bool { return topic != "" && topic[0] == '$' }
