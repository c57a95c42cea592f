package topics_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// matches is what the standard says, level by level, and as slow as it may be.
func matches(filter, topic string) bool {
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	if strings.HasPrefix(topic, "$") && (f[0] == "+" || f[0] == "#") {
		return false
	}
	for i, level := range f {
		if level == "#" {
			return true
		}
		if i == len(t) || level != "+" && level != t[i] {
			return false
		}
	}
	return len(f) == len(t) || len(f) < len(t) && slices.Contains(f, "#")
}

// inner cuts "$share/name/" off.
func inner(filter string) string {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(rest, "/")
	}
	return filter
}

// valid tells whether a text is a filter, and as a topic too if it has no
// wildcard.
func valid(filter string) bool {
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		if level == "#" && i == len(levels)-1 || level == "+" {
			continue
		}
		if strings.ContainsAny(level, "+#\x00") {
			return false
		}
	}
	return filter != ""
}

// words are levels of which some begin alike and some stand on either side of
// the separator in the order of bytes.
var words = []string{"", "a", "b", "a b", "a-", "a0", "ab", "$a", "$SYS", "ü"}

// randomTopic makes a topic of one to four levels.
func randomTopic(r *rand.Rand) string {
	levels := make([]string, 1+r.IntN(4))
	for i := range levels {
		levels[i] = words[r.IntN(len(words))]
	}
	if topic := strings.Join(levels, "/"); topic != "" {
		return topic
	}
	return "a"
}

// randomFilter makes a filter, more often than not with wildcards.
func randomFilter(r *rand.Rand) string {
	levels := strings.Split(randomTopic(r), "/")
	for i := range levels {
		if r.IntN(3) == 0 {
			levels[i] = "+"
		}
	}
	if r.IntN(3) == 0 {
		levels = append(levels, "#")
	} else if r.IntN(12) == 0 {
		return "#"
	}
	return strings.Join(levels, "/")
}
