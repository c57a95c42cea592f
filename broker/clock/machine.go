package clock

import "time"

// Machine returns the clocks of the machine that this process runs on.
func Machine() Sources {
	began := time.Now()
	s := Sources{Wall: time.Now, Elapsed: func() time.Duration { return time.Since(began) }}
	s.Suspended, s.Boot = kernelClocks()
	return s
}
