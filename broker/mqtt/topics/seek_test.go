package topics

import "testing"

// TestSeek checks that seeking skips as much as possible.
func TestSeek(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, topic string
		to            string
		rel           relation
	}{
		{"a/+/c", "a/b/c", "", relMatch},
		{"a/#", "a", "", relMatch},
		{"+/#", "a", "", relMatch},
		{"#", "$SYS/a", "%", relSeek},
		{"+/a", "$SYS/a", "%", relSeek},
		{"b/#", "a/b/c", "b", relSeek},
		{"b/#", "b a", "b/", relSeek},
		{"b/#", "b0", "", relEnd},
		{"b/#", "c", "", relEnd},
		{"b/+", "b", "b/", relSeek},
		{"b/+", "b/c/d", "b/c0", relSeek},
		{"b/+/d", "b/c", "b/c", relSeek},
		{"b/+/d", "b/c/a", "b/c/d", relSeek},
		{"b/+/d", "b/c/e", "b/c0", relSeek},
		{"b/+/d", "b/c/d/e", "b/c0", relSeek},
		{"b/+/d/+", "b/c/d", "b/c/d/", relSeek},
		{"b/+/d/+", "b/c/d e", "b/c/d/", relSeek},
		{"b/+/d/+/f", "b/c/d/e/g", "b/c/d/e0", relSeek},
		{"+/+/d", "b/c/e", "b/c0", relSeek},
		{"$SYS/+/d", "$SYS/c/e", "$SYS/c0", relSeek},
	} {
		if to, rel := seek(c.filter, c.topic); to != c.to || rel != c.rel {
			t.Errorf("seek of %q from %q: got %q, %d; want %q, %d", c.filter, c.topic, to, rel, c.to, c.rel)
		}
	}
}
