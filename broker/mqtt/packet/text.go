package packet

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// sharePrefix begins the filter of a shared subscription [MQTT-4.8.2-1].
const sharePrefix = "$share"

// ValidFilter reports whether a topic filter is valid: 1 to 65535 bytes of UTF-8 with
// wildcards only where allowed [MQTT-4.7.1-1] [MQTT-4.7.1-2], after "$share/name/" if it is
// shared [MQTT-4.8.2-1] [MQTT-4.8.2-2].
func ValidFilter(filter string) bool {
	return len(filter) <= maxText && validText([]byte(filter)) && filterFault(filter) == nil
}

// SplitShared splits the filter of a shared subscription. Any other filter is returned as
// rest.
func SplitShared(filter string) (share, rest string, shared bool) {
	after, found := strings.CutPrefix(filter, sharePrefix+"/")
	if !found {
		return "", filter, false
	}
	share, rest, found = strings.Cut(after, "/")
	if !found {
		return "", filter, false
	}
	return share, rest, true
}

// topicFault returns what is invalid in a topic name, except its encoding.
func topicFault(topic []byte) *Error {
	if len(topic) == 0 {
		return errNoTopic
	}
	if bytes.IndexByte(topic, '+') >= 0 || bytes.IndexByte(topic, '#') >= 0 { // [MQTT-3.3.2-2]
		return errWildcard
	}
	return nil
}

// filterFault returns what is invalid in a topic filter, except its encoding.
func filterFault(filter string) *Error {
	if filter == sharePrefix || strings.HasPrefix(filter, sharePrefix+"/") {
		share, rest, shared := SplitShared(filter)
		if !shared || share == "" || rest == "" {
			return errShare
		}
		if strings.ContainsAny(share, "+#") {
			return errFilter
		}
		filter = rest
	}
	if filter == "" {
		return errFilter
	}
	return wildcardFault(filter)
}

// wildcardFault checks that wildcards fill a level, and that # is the last one.
func wildcardFault(filter string) *Error {
	for more := true; more; {
		var level string
		level, filter, more = strings.Cut(filter, "/")
		if level == "#" && more || len(level) > 1 && strings.ContainsAny(level, "+#") {
			return errFilter
		}
	}
	return nil
}

// validText reports whether b is UTF-8 without U+0000 [MQTT-1.5.4-1] [MQTT-1.5.4-2], other
// control characters and non-characters.
func validText(b []byte) bool {
	for i, c := range b {
		if c >= utf8.RuneSelf {
			return validRunes(b[i:])
		}
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func validRunes(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 || r < ' ' || r >= 0x7f && r <= 0x9f {
			return false
		}
		if r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe {
			return false
		}
		b = b[size:]
	}
	return true
}
