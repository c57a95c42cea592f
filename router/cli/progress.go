package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a long command is: a bar at a terminal, otherwise a line now and
// then.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil if w is not a terminal
	now   func() time.Time
	begun time.Time
	last  time.Time
}

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

func newProgress(w io.Writer, terminal bool, total int, now func() time.Time) *progress {
	p := &progress{w: w, now: now, begun: now(), last: now()}
	if terminal {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetItsString("objects"))
	}
	return p
}

// step shows the numbers so far.
func (p *progress) step(done, failed int) {
	if p.bar != nil {
		p.bar.Set(done + failed) //nolint:errcheck // the results are on standard output
		return
	}
	now := p.now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	rate := float64(done+failed) / now.Sub(p.begun).Seconds()
	fmt.Fprintf(p.w, "signalbox: %d done, %d failed, %.0f a second\n", done, failed, rate)
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // as above
	}
}
