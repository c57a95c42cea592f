//go:build linux

package load

import (
	"os"
	"testing"
)

func TestProcessorTime(t *testing.T) {
	t.Parallel()
	if ProcessorTime(os.Getpid()) <= 0 || ProcessorTime(0) != 0 {
		t.Error("the processor time of this process, or of none, is wrong")
	}
}
