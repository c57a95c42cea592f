package bridges

import "strings"

// matches reports whether a filter matches a topic [MQTT-4.7.1], which must not begin with $.
func matches(filter, topic string) bool {
	for {
		f, restF, moreF := strings.Cut(filter, "/")
		if f == "#" {
			return true
		}
		t, restT, moreT := strings.Cut(topic, "/")
		if f != "+" && f != t {
			return false
		}
		switch {
		case !moreT:
			return !moreF || restF == "#" // also matches the parent level
		case !moreF:
			return false
		}
		filter, topic = restF, restT
	}
}

// overlap reports whether some topic matches both filters.
func overlap(a, b string) bool {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x == "#" || y == "#":
			return true
		case x != y && x != "+" && y != "+":
			return false
		case !moreA:
			return !moreB || restB == "#"
		case !moreB:
			return restA == "#"
		}
		a, b = restA, restB
	}
}
