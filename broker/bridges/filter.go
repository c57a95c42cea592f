package bridges

import "strings"

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
