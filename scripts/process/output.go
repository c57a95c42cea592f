package process

import (
	"bytes"
	"sync"
)

// Output is what a process has written so far.
type Output struct {
	line func(string) // is called with each line, unless nil

	mu   sync.Mutex // guards the fields below
	b    bytes.Buffer
	read int // length of the lines that line was called with
}

// Write appends to the output.
func (o *Output) Write(p []byte) (int, error) {
	for _, line := range o.append(p) {
		o.line(line)
	}
	return len(p), nil
}

// append returns the lines that p completes.
func (o *Output) append(p []byte) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	for o.line != nil {
		length := bytes.IndexByte(o.b.Bytes()[o.read:], '\n')
		if length < 0 {
			break
		}
		lines = append(lines, string(o.b.Bytes()[o.read:o.read+length]))
		o.read += length + 1
	}
	return lines
}

// String returns the output.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
