package handlers

import (
	"slices"
	"strings"
	"testing"
)

// TestTopicsOfARequest checks the bounds of the topics of a request.
func TestTopicsOfARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topics []string
		want   string // of the error; "" for none
	}{
		"ten":      {strings.Split("abcdefghij", ""), ""},
		"eleven":   {strings.Split("abcdefghijk", ""), "must not be given more than 10 times"},
		"an empty": {[]string{"a", ""}, "must not be empty"},
	} {
		for _, got := range [][]FieldError{(&ListTopicValuesRequest{Topics: c.topics}).Validate(), (&ListTopicLevelRequest{Topics: c.topics}).Validate()} {
			if c.want == "" && got != nil || c.want != "" && !slices.Equal(got, []FieldError{{"query.topic", c.want}}) {
				t.Errorf("%s: %v, want %q", name, got, c.want)
			}
		}
	}
}
