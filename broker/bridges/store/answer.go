package store

import (
	"regexp"
	"strings"
)

// maxAnswer is the maximum length of a stored response of a target, in bytes.
const maxAnswer = 500

// beforeAnswer separates the reason of a dead letter from the target's response. Neither contains
// it: both are texts without control characters.
const beforeAnswer = "\x1f"

// joinAnswer returns reason and response as one text for storage.
func joinAnswer(reason, answer string) string {
	reason = clip(strings.ReplaceAll(reason, beforeAnswer, " "), maxReason)
	if answer == "" {
		return reason
	}
	return reason + beforeAnswer + clip(answer, maxAnswer)
}

func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Formats of reasons that were stored before responses were separated.
var (
	withAnswer   = regexp.MustCompile(`(?s)^(.*?(?:the server answered \d{3}[^:]*|InfluxDB does not take the point)): (.*)$`)
	withLocation = regexp.MustCompile(`(?s)^(.*?the server answered \d{3}[^:]*) and leads to (".*"); (redirections are not followed.*)$`)
)

// splitAnswer splits a stored text into reason and response.
func splitAnswer(text string) (reason, answer string) {
	if reason, answer, ok := strings.Cut(text, beforeAnswer); ok {
		return reason, answer
	}
	if m := withLocation.FindStringSubmatch(text); m != nil {
		return m[1] + "; " + m[3], m[2]
	}
	if m := withAnswer.FindStringSubmatch(text); m != nil {
		return m[1], m[2]
	}
	return text, ""
}
