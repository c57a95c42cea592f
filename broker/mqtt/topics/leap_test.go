package topics

import "testing"

// TestLeap shows how far a walk leaps: not only to where it may, but to where it
// should.
func TestLeap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, topic string
		to            string
		is            relation
	}{
		{"a/+/c", "a/b/c", "", matching},
		{"a/#", "a", "", matching},
		{"+/#", "a", "", matching},
		{"#", "$SYS/a", "%", passed},
		{"+/a", "$SYS/a", "%", passed},
		{"b/#", "a/b/c", "b", passed},
		{"b/#", "b a", "b/", passed},
		{"b/#", "b0", "", over},
		{"b/#", "c", "", over},
		{"b/+", "b", "b/", passed},
		{"b/+", "b/c/d", "b/c0", passed},
		{"b/+/d", "b/c", "b/c", passed},
		{"b/+/d", "b/c/a", "b/c/d", passed},
		{"b/+/d", "b/c/e", "b/c0", passed},
		{"b/+/d", "b/c/d/e", "b/c0", passed},
		{"b/+/d/+", "b/c/d", "b/c/d/", passed},
		{"b/+/d/+", "b/c/d e", "b/c/d/", passed},
		{"b/+/d/+/f", "b/c/d/e/g", "b/c/d/e0", passed},
		{"+/+/d", "b/c/e", "b/c0", passed},
		{"$SYS/+/d", "$SYS/c/e", "$SYS/c0", passed},
	} {
		if to, is := leap(c.filter, c.topic); to != c.to || is != c.is {
			t.Errorf("leap of %q from %q: got %q, %d; want %q, %d", c.filter, c.topic, to, is, c.to, c.is)
		}
	}
}
