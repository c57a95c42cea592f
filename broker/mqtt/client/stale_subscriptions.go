package client

import (
	"iter"
	"strings"
)

// maxLevels is the length of the longest topic whose matching filters are enumerated: there
// are about 2 to that power.
const maxLevels = 10

// findFilter returns the filter with an identifier among those that match a topic. It
// identifies a subscription of an earlier run, since a session's subscriptions cannot be
// listed.
func findFilter(topic string, id uint32) (filter string, ok bool) {
	if strings.Count(topic, "/") >= maxLevels {
		return "", false
	}
	for f := range matchingFilters(topic) {
		if identifier(f) == id {
			return f, true
		}
	}
	return "", false
}

// matchingFilters returns every filter that matches a topic.
func matchingFilters(topic string) iter.Seq[string] {
	return func(yield func(string) bool) { eachMatching("", topic, yield) }
}

// eachMatching yields the filters that begin with certain levels and match the rest of a
// topic.
func eachMatching(begin, rest string, yield func(string) bool) bool {
	if !yield(begin + "#") {
		return false
	}
	level, rest, more := strings.Cut(rest, "/")
	for _, l := range [...]string{level, "+"} {
		switch {
		case more:
			if !eachMatching(begin+l+"/", rest, yield) {
				return false
			}
		case !yield(begin+l) || !yield(begin+l+"/#"):
			return false
		}
	}
	return true
}
