package store

import (
	"regexp"
	"strings"
)

// maxResponse is the maximum length of a stored response of a target, in bytes.
const maxResponse = 500

// responseSeparator separates the reason of a dead letter from the target's response. Neither
// contains it: both are texts without control characters.
const responseSeparator = "\x1f"

// joinResponse returns reason and response as one text for storage.
func joinResponse(reason, answer string) string {
	reason = clip(strings.ReplaceAll(reason, responseSeparator, " "), maxReason)
	if answer == "" {
		return reason
	}
	return reason + responseSeparator + clip(answer, maxResponse)
}

func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Formats of reasons that were stored before responses were separated.
var (
	oldResponse = regexp.MustCompile(`(?s)^(.*?(?:the server answered \d{3}[^:]*|InfluxDB does not take the point)): (.*)$`)
	oldLocation = regexp.MustCompile(`(?s)^(.*?the server answered \d{3}[^:]*) and leads to (".*"); (redirections are not followed.*)$`)
)

// splitResponse splits a stored text into reason and response.
func splitResponse(text string) (reason, answer string) {
	if reason, answer, ok := strings.Cut(text, responseSeparator); ok {
		return reason, answer
	}
	if m := oldLocation.FindStringSubmatch(text); m != nil {
		return m[1] + "; " + m[3], m[2]
	}
	if m := oldResponse.FindStringSubmatch(text); m != nil {
		return m[1], m[2]
	}
	return text, ""
}
