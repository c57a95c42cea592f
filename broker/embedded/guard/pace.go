package guard

import "time"

// allowance is how often something may happen: for ever once in every, and
// burst times at once after a rest. The zero allowance has no limit.
type allowance struct {
	every time.Duration
	burst int
}

func perSecond(rate, burst int) allowance {
	if rate == 0 {
		return allowance{}
	}
	return allowance{every: time.Second / time.Duration(rate), burst: burst}
}

func within(window time.Duration, n int) allowance {
	if n == 0 {
		return allowance{}
	}
	return allowance{every: window / time.Duration(n), burst: n}
}

// pace is how far an allowance is used up: the time when nothing of it is used
// any longer. The zero pace is unused.
type pace struct{ rested time.Time }

// left tells whether the allowance has room for one more now.
func (p *pace) left(a allowance, now time.Time) bool {
	return p.rested.Sub(now) <= a.every*time.Duration(a.burst-1) || a.burst == 0
}

// use takes one.
func (p *pace) use(a allowance, now time.Time) {
	if p.rested.Before(now) {
		p.rested = now
	}
	p.rested = p.rested.Add(a.every)
}

// take takes one if there is room for it.
func (p *pace) take(a allowance, now time.Time) bool {
	if !p.left(a, now) {
		return false
	}
	p.use(a, now)
	return true
}
