package client

import (
	"iter"
	"strings"
)

// maxLevels is the number of levels of the longest topic of which all filters
// that match it are gone through: there are about 2 to that power.
const maxLevels = 10

// origin finds the filter with an identifier among those that match a topic. It
// is how a subscription is known that an earlier run of the service left behind
// in a session, for no broker tells what a session is subscribed to.
func origin(topic string, id uint32) (filter string, ok bool) {
	if strings.Count(topic, "/") >= maxLevels {
		return "", false
	}
	for f := range matching(topic) {
		if identifier(f) == id {
			return f, true
		}
	}
	return "", false
}

// matching gives every filter that matches a topic.
func matching(topic string) iter.Seq[string] {
	return func(yield func(string) bool) { widen("", topic, yield) }
}

// widen gives the filters that begin with certain levels and go on to match the
// rest of a topic.
func widen(begin, rest string, yield func(string) bool) bool {
	if !yield(begin + "#") {
		return false
	}
	level, rest, more := strings.Cut(rest, "/")
	for _, l := range [...]string{level, "+"} {
		switch {
		case more:
			if !widen(begin+l+"/", rest, yield) {
				return false
			}
		case !yield(begin+l) || !yield(begin+l+"/#"):
			return false
		}
	}
	return true
}
