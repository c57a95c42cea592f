package appliance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

const (
	logPause   = 200 * time.Millisecond // between two looks for new lines
	maxLogLine = 64 << 10               // longer lines are printed in parts
)

// LogView is what is shown of a log.
type LogView struct {
	Lines  int        // the last ones of the present file
	Follow bool       // also those that are logged from now on
	Level  slog.Level // the least level
}

// PrintLog prints the last lines of log.file and, if they are followed, later ones until the context
// ends, also after the file was renamed to one of its older parts.
func PrintLog(ctx context.Context, c LogConfig, v LogView, out io.Writer) error {
	if c.File == "" {
		return errors.New("log.file is not set: the service logs to standard error, and the log is where the system keeps that, as in \"journalctl -u signalbox -f\"")
	}
	r := &logReader{path: c.File, maxFiles: c.MaxFiles, level: v.Level}
	f, err := os.Open(c.File)
	if err != nil {
		return fmt.Errorf("log.file: %w; name the configuration of the service with --config", err)
	}
	r.use(f)
	defer func() { r.file.Close() }() //nolint:errcheck // it was only read
	err = r.last(v.Lines, out)
	for err == nil && v.Follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPause):
			err = r.advance(out)
		}
	}
	return err
}

// logReader reads the lines of a log while it is written to.
type logReader struct {
	path     string
	maxFiles int
	level    slog.Level

	file    *os.File
	in      *bufio.Reader
	size    int64  // bytes that were read
	partial []byte // of a line whose end is not written yet
}

func (r *logReader) use(f *os.File) {
	r.file, r.in, r.size, r.partial = f, bufio.NewReaderSize(f, maxLogLine), 0, nil
}

// last prints the last lines of the file.
func (r *logReader) last(n int, out io.Writer) error {
	var lines [][]byte
	err := r.lines(func(line []byte) error {
		if lines = append(lines, line); len(lines) > n {
			lines = lines[1:]
		}
		return nil
	})
	for _, line := range lines {
		if err == nil {
			_, err = out.Write(line)
		}
	}
	return err
}

// lines calls do for each line up to the end of the file that has at least the level.
func (r *logReader) lines(do func(line []byte) error) error {
	for {
		part, err := r.in.ReadSlice('\n')
		r.size += int64(len(part))
		r.partial = append(r.partial, part...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		line := r.partial
		r.partial = nil
		if !r.matches(line) {
			continue
		}
		if err := do(line); err != nil {
			return err
		}
	}
}

// matches reports whether a line has at least the level, or none. As text it has level=WARN, as
// JSON "level":"WARN".
func (r *logReader) matches(line []byte) bool {
	_, rest, _ := bytes.Cut(line, []byte("level"))
	rest = bytes.TrimLeft(rest, `"=:`)
	var level slog.Level
	end := bytes.IndexAny(rest, `" `)
	return end < 0 || level.UnmarshalText(rest[:end]) != nil || level >= r.level
}

// advance prints what was written since, up to the end of the file that is written to now. It was
// created after the last write to the file before.
func (r *logReader) advance(out io.Writer) error {
	for {
		now, missing := os.Stat(r.path)
		err := r.lines(func(line []byte) error {
			_, err := out.Write(line)
			return err
		})
		if err != nil || missing != nil {
			return err // a file that is being renamed is looked for again
		}
		info, err := r.file.Stat()
		if err != nil {
			return err
		}
		if os.SameFile(now, info) {
			if info.Size() < r.size { // it was truncated
				_, err = r.file.Seek(0, io.SeekStart)
				r.use(r.file)
			}
			return err
		}
		next, err := r.successor(info)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		r.file.Close() //nolint:errcheck // it was only read
		r.use(next)
	}
}

// successor opens the file that was written to after another one, which is an older part now; if
// that was deleted, the present one.
func (r *logReader) successor(of fs.FileInfo) (*os.File, error) {
	for {
		n := r.part(of)
		name := r.path
		if n > 1 {
			name = fmt.Sprintf("%s.%d", r.path, n-1)
		}
		f, err := os.Open(name)
		if err != nil || n == r.part(of) { // otherwise they were renamed meanwhile
			return f, err
		}
		f.Close() //nolint:errcheck // nothing was read
	}
}

// part returns the number of an older part, 0 if it was deleted.
func (r *logReader) part(of fs.FileInfo) int {
	for n := 1; n < r.maxFiles; n++ {
		if info, err := os.Stat(fmt.Sprintf("%s.%d", r.path, n)); err == nil && os.SameFile(info, of) {
			return n
		}
	}
	return 0
}
