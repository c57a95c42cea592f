//go:build !linux

package suite

import (
	"testing"
	"time"
)

var began = time.Now()

// ThreadTime returns elapsed time: the processor time of a thread is only available on
// Linux.
func ThreadTime(testing.TB) time.Duration { return time.Since(began) }
