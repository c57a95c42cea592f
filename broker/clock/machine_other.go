//go:build !linux

package clock

import "time"

// kernelClocks knows nothing beyond the clocks of Go.
func kernelClocks() (suspended func() time.Duration, boot func() (string, time.Duration)) {
	return nil, nil
}
