package engine_test

import (
	"sync/atomic"
	"time"
)

// clock is a clock that the test sets.
type clock struct {
	began time.Time
	ahead atomic.Int64
}

func newClock() *clock { return &clock{began: time.Now()} }

func (c *clock) get() time.Time { return c.began.Add(time.Duration(c.ahead.Load())) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }
