package mapping_test

import (
	"testing"

	"signalbox/broker/bridges/mapping"
)

// TestTextsTakeNoMemory checks that a text is written into the given buffer without allocations.
func TestTextsTakeNoMemory(t *testing.T) {
	tpl, err := mapping.ParseTemplate("/v1/${topic}/${payload|base64}", mapping.EscapePath)
	if err != nil {
		t.Fatal(err)
	}
	m, dst := example(t, document), make([]byte, 0, 4096)
	if got := testing.AllocsPerRun(100, func() { _, _ = tpl.Append(dst, m) }); got > 4 {
		t.Errorf("got %v allocations, want at most 4", got)
	}
}
