package broker

import (
	"strings"
	"unicode/utf8"
)

// maxTopic is the length limit of topics and filters in bytes [MQTT-4.7.3-3].
const maxTopic = 65535

// ValidFilter tells whether s is a topic filter [MQTT-4.7.1]: not empty, UTF-8
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
