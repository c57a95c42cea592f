package topics

import "strings"

// relation is how a topic stands to a filter.
type relation byte

const (
	matching relation = iota // the filter matches it
	passed                   // it does not, but may match a higher topic
	over                     // it matches neither this nor a higher one
)

// The byte after the separator of levels, which ends a range of topics that
// begin alike, and the one after "$".
const (
	afterSlash  = "0"
	afterDollar = "%"
)

// leap compares a topic with a filter that holds a wildcard. Where the filter has
// passed the topic, it matches none from there up to, but without, the one in to.
// Topics are ordered by their bytes.
//
// Of a topic and a filter that are alike up to some level, what matches next
// either begins with the same levels, or has a higher one where the filter has
// its last "+" before.
func leap(filter, topic string) (to string, is relation) {
	if internal(topic) && (filter[0] == '+' || filter[0] == '#') {
		return afterDollar, passed
	}
	beyond, at := -1, 0 // end of the last level by "+", start of the level here
	for {
		level, rest, more := strings.Cut(filter, "/")
		if level == "#" {
			return "", matching
		}
		end := at + strings.IndexByte(topic[at:], '/')
		deeper := end >= at
		if !deeper {
			end = len(topic)
		}
		switch {
		case level != "+" && level != topic[at:end]:
			return towards(topic, at, level, more, beyond)
		case !deeper && (!more || rest == "#"):
			return "", matching
		case !deeper && level == "+":
			return topic, passed
		case !deeper:
			return topic + "/", passed
		case level == "+":
			beyond = end
		}
		if !more {
			return up(topic, beyond)
		}
		filter, at = rest, end+1
	}
}

// towards leaps from a topic whose level at a place is another than the literal
// one of the filter, which may have more.
func towards(topic string, at int, level string, more bool, beyond int) (to string, is relation) {
	here := topic[at:]
	if here < level {
		return topic[:at] + level, passed
	}
	if more && strings.HasPrefix(here, level) && here[len(level)] < '/' {
		return topic[:at] + level + "/", passed
	}
	return up(topic, beyond)
}

// up leaps over all topics that are alike up to the end of the level matched by
// the last "+".
func up(topic string, beyond int) (to string, is relation) {
	if beyond < 0 {
		return "", over
	}
	return topic[:beyond] + afterSlash, passed
}
