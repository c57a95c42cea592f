package storage

import (
	"context"
	"log/slog"
)

// Fail records that nothing can be stored. It is only for the committer's
// goroutine.
func (c *Committer[E]) Fail(err error) {
	sentence := c.config.Contents + " cannot be stored"
	if c.cause.Swap(c.config.Conn.file.Failure(err, sentence+"; see the log for the reason")) == nil {
		c.since = c.config.Now()
		c.config.Log.Error(sentence, slog.Any("error", err))
	}
	c.resetTimer(ProbeInterval)
}

// Recover checks whether the file can be written to again, if it could not. It
// is only for the committer's goroutine.
func (c *Committer[E]) Recover() {
	if c.cause.Load() == nil {
		return
	}
	resume := c.Probe
	if c.calls.Resume != nil {
		resume = c.calls.Resume
	}
	if err := resume(); err != nil {
		c.Fail(err)
		return
	}
	c.cause.Store(nil)
	c.config.Log.Info(c.config.Contents+" can be stored again", slog.Duration("duration", c.config.Now().Sub(c.since)))
	c.resetTimer(TidyDelay)
}

// Probe checks whether the file can be written to. It is only for the
// committer's goroutine.
func (c *Committer[E]) Probe() error {
	return c.config.Conn.probe(context.Background(), c.config.ProbeInsert, c.config.ProbeDelete)
}
