package packet

import (
	"regexp"
	"unicode"
	"unicode/utf8"
)

var (
	shareLike   = regexp.MustCompile(`^\$share(/|$)`)
	shareFilter = regexp.MustCompile(`(?s)^\$share/[^/+#]+/(.+)$`)
	plainFilter = regexp.MustCompile(`(?s)^(([^/+#]*|\+)/)*([^/+#]*|\+|#)$`)
)

// matchesGrammar reports whether a topic filter is valid, by regular expressions.
func matchesGrammar(filter string) bool {
	if len(filter) == 0 || len(filter) > maxText || !utf8.ValidString(filter) {
		return false
	}
	for _, r := range filter {
		if unicode.IsControl(r) || unicode.Is(unicode.Noncharacter_Code_Point, r) {
			return false
		}
	}
	if shareLike.MatchString(filter) {
		parts := shareFilter.FindStringSubmatch(filter)
		return parts != nil && plainFilter.MatchString(parts[1])
	}
	return plainFilter.MatchString(filter)
}
