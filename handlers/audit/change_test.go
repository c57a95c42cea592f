package audit

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestObjectsAreBounded checks that the name of an object, which a client chooses, does not make
// rows and the memory of repeated events grow.
func TestObjectsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1<<20)
	for give, want := range map[string]int{"": 0, "role": 4, long[:2*maxText]: maxText, long: maxText + 1} {
		if got := utf8.RuneCountInString(ObjectOf(map[string]any{"topic": give})); got != want {
			t.Errorf("%d characters: got %d, want %d", utf8.RuneCountInString(give), got, want)
		}
	}
}
