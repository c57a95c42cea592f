package client

import "strings"

// Covers tells whether a matches every topic that b matches. Two different
// filters may cover each other, as "#" and "+/#" do.
func Covers(a, b string) bool {
	if hidden(a, b) {
		return false
	}
	for first := true; ; first = false {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		switch {
		case x == "#":
			return true
		case y == "#": // which matches the level above it too [MQTT-4.7.1-2]
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

// Overlap tells whether there is a topic that both filters match.
func Overlap(a, b string) bool {
	if hidden(a, b) || hidden(b, a) {
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

// hidden tells whether a begins with a wildcard and b with $, which no wildcard
// stands for [MQTT-4.7.2-1].
func hidden(a, b string) bool {
	return strings.HasPrefix(b, "$") && (strings.HasPrefix(a, "+") || strings.HasPrefix(a, "#"))
}

// wild tells whether a filter holds a wildcard.
func wild(filter string) bool { return strings.ContainsAny(filter, "+#") }
