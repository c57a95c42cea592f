package broker

import (
	"strings"
	"unicode/utf8"
)

// maxTopic is the length limit of topics and filters in bytes [MQTT-4.7.3-3].
const maxTopic = 65535

// ValidFilter reports whether s is a topic filter [MQTT-4.7.1]: not empty, UTF-8
// without NUL, "#" only as the last level, "+" and "#" only as whole levels.
func ValidFilter(s string) bool {
	if s == "" || len(s) > maxTopic || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return false
	}
	for s != "" {
		level, rest, more := strings.Cut(s, "/")
		if level == "#" {
			return !more
		}
		if level != "+" && strings.ContainsAny(level, "+#") {
			return false
		}
		s = rest
	}
	return true
}

// ValidTopic reports whether s can be published to: text of 1 to 65535 bytes without
// wildcards and without U+0000 [MQTT-4.7.1-1, MQTT-4.7.3].
func ValidTopic(s string) bool {
	return s != "" && len(s) <= maxTopic && !hasWildcard(s) && strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

// FilterMatches reports whether a valid filter matches a valid topic [MQTT-4.7.1]. A
// wildcard in the first level does not match a topic that begins with "$"
// [MQTT-4.7.2-1]. No filter matches the empty topic.
func FilterMatches(filter, topic string) bool {
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

// sharePrefix begins the filter of a shared subscription.
const sharePrefix = "$share/"

// ValidSubscription reports whether s can be subscribed to: a topic filter, which names
// a group and a filter if it begins with $share/ [MQTT-4.8.2-1, MQTT-4.8.2-2].
func ValidSubscription(s string) bool {
	if !ValidFilter(s) {
		return false
	}
	shared, ok := strings.CutPrefix(s, sharePrefix)
	if !ok {
		return true
	}
	group, filter, _ := strings.Cut(shared, "/")
	return group != "" && filter != "" && !hasWildcard(group)
}

// hasWildcard searches byte by byte, which is faster than for a set of characters.
func hasWildcard(s string) bool {
	return strings.IndexByte(s, '+') >= 0 || strings.IndexByte(s, '#') >= 0
}
