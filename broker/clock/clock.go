// Package clock is the time by which sessions, messages and whatever else has a
// life time expire: service time, which no operator can set.
//
// A [Clock] begins with the time of day and goes on by the monotonic clock, so a step
// of the time of day neither ends nor prolongs anything. A [Timeline] carries service
// time over restarts in the database whose times it is for. DESIGN.md explains both.
// Of this module the package may import only broker/storage.
package clock

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Sources are the clocks of the machine. Each may be called from any goroutine.
type Sources struct {
	// Wall returns the time of day, which may be set at any time.
	Wall func() time.Time
	// Elapsed returns how much time has passed since some moment. It never goes back,
	// and may stand still while the machine is suspended.
	Elapsed func() time.Duration
	// Suspended returns for how long the machine has been suspended while Elapsed stood
	// still; nil where that is not known.
	Suspended func() time.Duration
	// Boot returns a name of the current boot of the machine, and how much time has
	// passed since then, suspended or not; nil where that is not known.
	Boot func() (id string, since time.Duration)
}

// Moments is up to which difference two clocks are taken to agree.
const Moments = 2 * time.Second

// Bounds of what is noticed.
const (
	lookEvery = time.Second
	jumpSize  = Moments                // a change of the time of day within lookEvery that is a jump
	tolerance = 10 * time.Millisecond  // a distance to the time of day that is left as it is
	blur      = 100 * time.Millisecond // two readings further apart are not of one moment
)

// Clock returns service time. All methods are safe for concurrent use, and those that
// return a time cost no more than reading the monotonic clock.
type Clock struct {
	sources Sources
	log     *slog.Logger

	rate  atomic.Pointer[rate]
	shift atomic.Int64 // nanoseconds from service time to the time of day, by jumps
	jumps atomic.Int64
	turns atomic.Int64 // changes of shift and suspensions, after which timelines are stored

	deferred atomic.Bool // whether timelines are not stored yet

	mu    sync.Mutex    // guards what follows
	slept time.Duration // that service time has counted
}

// rate is how service time goes on from a moment.
type rate struct {
	at      time.Time     // service time
	elapsed time.Duration // of the monotonic clock, at that moment
	slew    time.Duration // hundredths by which service time is faster
}

// New returns a Clock that shows the time of day. Start keeps it right.
func New(s Sources, log *slog.Logger) *Clock {
	c := &Clock{sources: s, log: log}
	if s.Suspended != nil {
		c.slept = s.Suspended()
	}
	c.rate.Store(&rate{at: s.Wall().Round(0), elapsed: s.Elapsed()})
	return c
}

// Now returns service time, without a monotonic reading: it is one itself.
func (c *Clock) Now() time.Time { return c.rate.Load().read(c.sources.Elapsed()) }

func (r *rate) read(elapsed time.Duration) time.Time {
	d := elapsed - r.elapsed
	return r.at.Add(d + d/100*r.slew)
}

// Wall returns what the time of day would be at a service time, as it is set now. It
// is for what people read.
func (c *Clock) Wall(t time.Time) time.Time { return t.Add(time.Duration(c.shift.Load())) }

// Jumps returns how often the time of day has been set by more than moments.
func (c *Clock) Jumps() int64 { return c.jumps.Load() }

// Defer keeps timelines from being stored until begin is called: a start that is refused
// leaves the databases as they were. What they hold stays right meanwhile.
func (c *Clock) Defer() (begin func()) {
	c.deferred.Store(true)
	return func() {
		c.deferred.Store(false)
		c.turns.Add(1)
	}
}

// Start has the Clock notice when the time of day is set and when the machine was
// suspended, until stop is called, which waits for the end of that. Without it a Clock
// goes on, but notices neither.
func (c *Clock) Start() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.watch(done)
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
	})
}

func (c *Clock) watch(done <-chan struct{}) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			c.Look()
		case <-done:
			return
		}
	}
}

// Look compares the clocks once, as is done each second after Start.
func (c *Clock) Look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, elapsed, suspended, ok := c.sources.together()
	if !ok {
		return // the next look sees the same
	}
	now := c.rate.Load().read(elapsed)
	if more := suspended - c.slept; more > blur {
		now, c.slept = now.Add(more), suspended
		c.turns.Add(1)
		c.log.Info("the machine was suspended; sessions and messages have aged meanwhile", "duration", more.Round(time.Second))
	}
	next := &rate{at: now, elapsed: elapsed}
	shift := time.Duration(c.shift.Load())
	switch off := wall.Sub(now) - shift; {
	case off > jumpSize || off < -jumpSize:
		c.jump(off, shift+off)
	case off > tolerance:
		next.slew = 1
	case off < -tolerance:
		next.slew = -1
	}
	c.rate.Store(next)
}

// jump notes that the time of day was set.
func (c *Clock) jump(by, shift time.Duration) {
	c.shift.Store(int64(shift))
	c.jumps.Add(1)
	c.turns.Add(1)
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	c.log.Warn("the machine's clock was set "+direction+"; sessions and messages expire when their time has passed, whatever it shows",
		"by", by.Abs().Round(time.Millisecond))
}

// together reads all clocks at one moment. It is not ok where the process was kept
// waiting in between each time.
func (s *Sources) together() (wall time.Time, elapsed, suspended time.Duration, ok bool) {
	for range 3 {
		before, slept := s.Elapsed(), s.suspended()
		wall = s.Wall().Round(0)
		elapsed, suspended = s.Elapsed(), s.suspended()
		if elapsed-before < blur && suspended-slept < blur {
			return wall, elapsed, suspended, true
		}
	}
	return wall, elapsed, suspended, false
}

func (s *Sources) suspended() time.Duration {
	if s.Suspended == nil {
		return 0
	}
	return s.Suspended()
}

func (s *Sources) boot() (id string, since time.Duration) {
	if s.Boot == nil {
		return "", 0
	}
	return s.Boot()
}
