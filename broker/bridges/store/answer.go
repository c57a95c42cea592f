package store

import (
	"regexp"
	"strings"
)

// maxAnswer is how much is kept of what a target answered, in bytes.
const maxAnswer = 500

// beforeAnswer stands between the reason of a dead letter and what the target
// answered. It is in neither: both are texts without control characters.
const beforeAnswer = "\x1f"

// joinAnswer makes what is stored of a reason and an answer.
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

// Reasons that were stored before answers were kept apart.
var (
	withAnswer   = regexp.MustCompile(`(?s)^(.*?(?:the server answered \d{3}[^:]*|InfluxDB does not take the point)): (.*)$`)
	withLocation = regexp.MustCompile(`(?s)^(.*?the server answered \d{3}[^:]*) and leads to (".*"); (redirections are not followed.*)$`)
)

// splitAnswer takes apart what is stored.
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
