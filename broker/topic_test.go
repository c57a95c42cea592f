package broker

import "testing"

func TestFilterMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		filter, topic string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a", "a/", false}, {"a/", "a", false}, {"a", "a/b", false}, {"a/b", "a", false},
		{"+", "a", true}, {"+", "/a", false}, {"/+", "/a", true}, {"+/+", "/a", true}, {"a/+", "a", false}, {"a/+", "a/", true},
		{"#", "a/b", true}, {"#", "/", true}, {"a/#", "a", true}, {"a/#", "a/", true}, {"a/#", "ab", false}, {"+/#", "a", true},
		{"a/+/#", "a", false}, {"a/+/#", "a/b", true}, {"a/+/c", "a/b/c", true}, {"a/+/c", "a/b/d", false},
		{"#", "$SYS", false}, {"+", "$SYS", false}, {"+/x", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"a/#", "a/$x", true},
		{"#", "", false}, {"+", "", false},
	} {
		if got := FilterMatches(test.filter, test.topic); got != test.want {
			t.Errorf("FilterMatches(%q, %q) = %t, want %t", test.filter, test.topic, got, test.want)
		}
	}
}
