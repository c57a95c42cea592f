//go:build !linux

package suite

import (
	"testing"
	"time"
)

var began = time.Now()

// ThreadTime returns the time that has passed: processor time of a thread is
// known on Linux only.
func ThreadTime(testing.TB) time.Duration { return time.Since(began) }
