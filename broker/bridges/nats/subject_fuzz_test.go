package nats

import (
	"net/url"
	"strings"
	"testing"
)

// FuzzSubject checks that every topic becomes a valid subject from which the topic can be
// decoded.
func FuzzSubject(f *testing.F) {
	for _, topic := range []string{"a/b", "/", "a//b/", "a b.c%*>", "é/\x7f", "%", "%%/%25"} {
		f.Add(topic)
	}
	f.Fuzz(func(t *testing.T, topic string) {
		subject := subjectOfTopic(topic)
		if err := checkSubject(subject); err != nil && topic != "" && topic[0] != '$' && !strings.HasPrefix(topic, "_INBOX/") && len(subject) <= maxSubject && strings.ToValidUTF8(topic, "") == topic {
			t.Fatalf("%q: %v", topic, err)
		}
		var levels []string
		for token := range strings.SplitSeq(subject, ".") {
			if token == "%" {
				token = ""
			}
			level, err := url.PathUnescape(token)
			if err != nil {
				t.Fatalf("%q: %q: %v", topic, subject, err)
			}
			levels = append(levels, level)
		}
		if got := strings.Join(levels, "/"); got != topic {
			t.Errorf("%q became %q, which tells %q", topic, subject, got)
		}
	})
}
