package nats

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

// maxSubject is the maximum length of a subject in bytes: servers accept lines of 4096 bytes,
// which contain more than the subject.
const maxSubject = 3000

// subjectOfTopic converts a topic to a subject, and different topics to different subjects:
// levels become tokens. A character that NATS does not allow in a token is written as % and two
// hexadecimal digits, and an empty level as % alone.
func subjectOfTopic(topic string) string {
	var b strings.Builder
	for i, level := range strings.Split(topic, "/") {
		if i > 0 {
			b.WriteByte('.')
		}
		if level == "" {
			b.WriteByte('%')
		}
		for _, c := range []byte(level) {
			if isForbidden(c) || c == '.' || c == '%' {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// isForbidden reports whether a character is not allowed in a token.
func isForbidden(c byte) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }

// checkSubject returns an error if a message cannot be published to s.
func checkSubject(s string) error {
	switch {
	case s == "":
		return errors.New("the subject is empty")
	case len(s) > maxSubject:
		return fmt.Errorf("the subject has more than %d bytes", maxSubject)
	case !utf8.ValidString(s):
		return errors.New("the subject is not UTF-8")
	case s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, ".."):
		return fmt.Errorf("the subject %q has an empty token", s)
	case s[0] == '$' || strings.HasPrefix(s, "_INBOX."):
		return fmt.Errorf("the subject %q belongs to the servers", s)
	}
	for i := range len(s) {
		if isForbidden(s[i]) {
			return fmt.Errorf("the subject %q has a character that NATS does not allow", s)
		}
	}
	return nil
}

// checkConstant checks a subject that is the same for all messages.
func checkConstant(t *mapping.Template, place string, p *bridges.Problems) {
	subject, err := t.Append(nil, &mapping.Message{Message: &messaging.Message{}})
	if err == nil {
		err = checkSubject(toTokens(string(subject)))
	}
	if err != nil {
		p.Add(place, err.Error())
	}
}

// toTokens converts the levels of topics in a subject to tokens.
func toTokens(s string) string { return strings.ReplaceAll(s, "/", ".") }
