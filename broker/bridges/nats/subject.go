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

// maxSubject is how long a subject may be, in bytes: servers take lines of 4096,
// in which there is more.
const maxSubject = 3000

// subjectOfTopic makes a subject of a topic, and of two topics two subjects: levels
// become tokens. What NATS does not allow in a token is written as % and two
// hexadecimal digits, and an empty level as a % alone.
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
			if forbidden(c) || c == '.' || c == '%' {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// forbidden tells whether no token may have a character.
func forbidden(c byte) bool { return c <= ' ' || c == '*' || c == '>' || c == 0x7f }

// checkSubject tells why a subject cannot be published to.
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
		if forbidden(s[i]) {
			return fmt.Errorf("the subject %q has a character that NATS does not allow", s)
		}
	}
	return nil
}

// checkConstant finds what is wrong with a subject that is the same for all
// messages.
func checkConstant(t *mapping.Template, place string, p *bridges.Problems) {
	subject, err := t.Append(nil, &mapping.Message{Message: &messaging.Message{}})
	if err == nil {
		err = checkSubject(tokens(string(subject)))
	}
	if err != nil {
		p.Add(place, err.Error())
	}
}

// tokens makes tokens of the levels of topics in a subject.
func tokens(s string) string { return strings.ReplaceAll(s, "/", ".") }
