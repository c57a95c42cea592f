package limits

import "time"

// rateLimit allows one event per interval in the long run, and burst events at once after
// an idle time. The zero rateLimit does not limit.
type rateLimit struct {
	interval time.Duration
	burst    int
}

func perSecond(rate, burst int) rateLimit {
	if rate == 0 {
		return rateLimit{}
	}
	return rateLimit{interval: time.Second / time.Duration(rate), burst: burst}
}

func within(window time.Duration, n int) rateLimit {
	if n == 0 {
		return rateLimit{}
	}
	return rateLimit{interval: window / time.Duration(n), burst: n}
}

// tokenBucket is the use of a rate limit, as the time at which the bucket is full again.
// The zero tokenBucket is full.
type tokenBucket struct{ fullAt time.Time }

// available reports whether the bucket has a token now.
func (b *tokenBucket) available(limit rateLimit, now time.Time) bool {
	return b.fullAt.Sub(now) <= limit.interval*time.Duration(limit.burst-1) || limit.burst == 0
}

// use takes a token.
func (b *tokenBucket) use(limit rateLimit, now time.Time) {
	if b.fullAt.Before(now) {
		b.fullAt = now
	}
	b.fullAt = b.fullAt.Add(limit.interval)
}

// take takes a token and reports whether there was one.
func (b *tokenBucket) take(limit rateLimit, now time.Time) bool {
	if !b.available(limit, now) {
		return false
	}
	b.use(limit, now)
	return true
}
