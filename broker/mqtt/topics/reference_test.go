package topics_test

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// matches is a naive implementation of the standard.
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

// inner removes "$share/name/".
func inner(filter string) string {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(rest, "/")
	}
	return filter
}

// valid reports whether a text is a valid filter, which is a valid topic if it has no
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

// words are levels, some with a common prefix and some that sort before or after the
// separator.
var words = []string{"", "a", "b", "a b", "a-", "a0", "ab", "$a", "$SYS", "ü"}

// randomTopic returns a topic of one to four levels.
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

// randomFilter returns a filter, mostly with wildcards.
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
