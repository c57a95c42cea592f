package topics

import "strings"

// relation is the relation of a topic to a filter.
type relation byte

const (
	relMatch relation = iota // the filter matches the topic
	relSeek                  // it does not, but may match a later one
	relEnd                   // it matches neither this nor a later one
)

// The byte after the level separator, which ends a range of topics with a common prefix, and
// the one after "$".
const (
	afterSlash  = "0"
	afterDollar = "%"
)

// seek compares a topic with a filter that has a wildcard. If the result is relSeek, the
// filter matches no topic from this one up to, but excluding, to. Topics are ordered by their
// bytes.
//
// Given the levels that topic and filter have in common, the next match either begins with the
// same levels, or has a greater level at the last "+" before.
//
//revive:disable-next-line:cyclomatic // one loop over levels, which runs for each retained topic: parts of it as functions cost calls
func seek(filter, topic string) (to string, rel relation) {
	if isDollarTopic(topic) && (filter[0] == '+' || filter[0] == '#') {
		return afterDollar, relSeek
	}
	plusEnd, at := -1, 0 // end of the last level matched by "+", start of the current level
	for {
		level, rest, more := strings.Cut(filter, "/")
		if level == "#" {
			return "", relMatch
		}
		end := at + strings.IndexByte(topic[at:], '/')
		hasMore := end >= at
		if !hasMore {
			end = len(topic)
		}
		switch {
		case level != "+" && level != topic[at:end]:
			return seekLevel(topic, at, level, more, plusEnd)
		case !hasMore && (!more || rest == "#"):
			return "", relMatch
		case !hasMore && level == "+":
			return topic, relSeek
		case !hasMore:
			return topic + "/", relSeek
		case level == "+":
			plusEnd = end
		}
		if !more {
			return seekPastPlus(topic, plusEnd)
		}
		filter, at = rest, end+1
	}
}

// seekLevel seeks from a topic whose level at a position differs from the literal level of the
// filter; more reports whether the filter has further levels.
func seekLevel(topic string, at int, level string, more bool, plusEnd int) (to string, rel relation) {
	here := topic[at:]
	if here < level {
		return topic[:at] + level, relSeek
	}
	if more && strings.HasPrefix(here, level) && here[len(level)] < '/' {
		return topic[:at] + level + "/", relSeek
	}
	return seekPastPlus(topic, plusEnd)
}

// seekPastPlus seeks past all topics with the same prefix up to the level matched by the last
// "+".
func seekPastPlus(topic string, plusEnd int) (to string, rel relation) {
	if plusEnd < 0 {
		return "", relEnd
	}
	return topic[:plusEnd] + afterSlash, relSeek
}
