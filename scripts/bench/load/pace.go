//go:build linux

package load

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// pace makes each publisher send that many messages, in turn and one at a time, at the
// rate of the flow. It sleeps in a thread of its own, because the timers of the runtime
// are a millisecond late in an idle process.
func (s *stream) pace(share int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	step := time.Second / time.Duration(s.Rate)
	began := time.Now()
	for n := range share * int64(s.Publishers) {
		if s.ended.Err() != nil {
			return
		}
		if left := time.Until(began.Add(time.Duration(n) * step)); left > 0 {
			pause := unix.NsecToTimespec(int64(left))
			unix.Nanosleep(&pause, nil) //nolint:errcheck // after an early wake-up it sends early
		}
		err := s.gauge.enter(s.ended, 1)
		if err == nil {
			err = s.publishers[n%int64(s.Publishers)].send()
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}
