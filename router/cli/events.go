package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// limitStream bounds the time of a stream, which must begin within usualTime. begin is called
// then; the stream lasts for the time of the flag, if that is given.
func (c *connection) limitStream(parent context.Context) (ctx context.Context, begin func(), cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	timer := time.AfterFunc(usualTime, func() { end(context.DeadlineExceeded) })
	begin = func() {
		timer.Stop()
		if c.timeoutFlag.Changed {
			timer.Reset(c.timeout)
		}
	}
	return ctx, begin, func() { timer.Stop(); end(nil) }
}

// readEvents passes the type and the data of each event of a stream to do, as they arrive.
func readEvents(r io.Reader, do func(kind, data string) error) error {
	in := bufio.NewReader(r)
	kind := ""
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, "event:"); ok {
			kind = strings.TrimSpace(name)
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			if err := do(kind, strings.TrimPrefix(data, " ")); err != nil {
				return err
			}
		}
	}
}
