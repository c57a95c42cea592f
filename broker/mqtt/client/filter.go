package client

import "strings"

// Covers reports whether a matches every topic that b matches. Two different filters may cover
// each other, as "#" and "+/#" do.
func Covers(a, b string) bool {
	if excludedByDollar(a, b) {
		return false
	}
	for first := true; ; first = false {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x == "#":
			return true
		case y == "#": // which matches the parent level, too [MQTT-4.7.1-2]
			return first && a == "+/#"
		case x != "+" && x != y:
			return false
		case !moreB:
			return !moreA || restA == "#"
		case !moreA:
			return false
		}
		a, b = restA, restB
	}
}

// Overlap reports whether there is a topic that both filters match.
func Overlap(a, b string) bool {
	if excludedByDollar(a, b) || excludedByDollar(b, a) {
		return false
	}
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x == "#" || y == "#":
			return true
		case x != "+" && y != "+" && x != y:
			return false
		case !moreA:
			return !moreB || restB == "#"
		case !moreB:
			return restA == "#"
		}
		a, b = restA, restB
	}
}

// excludedByDollar reports whether a begins with a wildcard and b with $, which no wildcard
// matches [MQTT-4.7.2-1].
func excludedByDollar(a, b string) bool {
	return strings.HasPrefix(b, "$") && (strings.HasPrefix(a, "+") || strings.HasPrefix(a, "#"))
}

// hasWildcard reports whether a filter contains a wildcard.
func hasWildcard(filter string) bool { return strings.ContainsAny(filter, "+#") }
