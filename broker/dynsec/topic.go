package dynsec

import (
	"strings"

	"signalbox/broker"
)

// maxTopicBytes is the maximum length of a UTF-8 string of MQTT [MQTT-1.5.4].
const maxTopicBytes = 65535

// sharePrefix begins the filter of a shared subscription.
const sharePrefix = "$share/"

// validTopic is [broker.ValidTopic].
func validTopic(s string) bool { return broker.ValidTopic(s) }

// validSubscription is [broker.ValidSubscription].
func validSubscription(s string) bool { return broker.ValidSubscription(s) }

// FilterCovers reports whether every topic that the filter requested matches also
// matches acl, level by level: + covers any level but #, and # covers the level above
// it and all below. A wildcard in the first level covers nothing that begins with $. A
// shared subscription is a filter like any other: only a filter that begins with $share
// covers it. A string that is not a filter covers nothing.
func FilterCovers(acl, requested string) bool {
	if !broker.ValidFilter(acl) || !broker.ValidFilter(requested) || isDollarTopic(acl) != isDollarTopic(requested) {
		return false
	}
	for {
		want, aclRest, aclMore := strings.Cut(acl, "/")
		have, reqRest, reqMore := strings.Cut(requested, "/")
		switch {
		case want == "#":
			return true
		case have == "#" || want != "+" && want != have:
			return false
		case !reqMore:
			return !aclMore || aclRest == "#"
		case !aclMore:
			return false
		}
		acl, requested = aclRest, reqRest
	}
}

// FilterMatches reports whether the filter matches the topic [MQTT-4.7].
func FilterMatches(filter, topic string) bool {
	return validTopic(topic) && FilterCovers(filter, topic)
}

// misplacedWildcard returns the position of the first misplaced wildcard in s, or -1.
func misplacedWildcard(s string) int {
	for i := range len(s) {
		switch s[i] {
		case '#':
			if i+1 < len(s) || !levelStart(s, i) {
				return i
			}
		case '+':
			if !levelStart(s, i) || (i+1 < len(s) && s[i+1] != '/') {
				return i
			}
		}
	}
	return -1
}

func levelStart(s string, i int) bool { return i == 0 || s[i-1] == '/' }

func hasWildcard(s string) bool {
	return strings.IndexByte(s, '+') >= 0 || strings.IndexByte(s, '#') >= 0
}

// isDollarTopic reports whether a topic or filter is outside the space that a leading wildcard
// matches [MQTT-4.7.2-1].
func isDollarTopic(s string) bool { return s != "" && s[0] == '$' }
