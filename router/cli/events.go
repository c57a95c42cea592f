package cli

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

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
