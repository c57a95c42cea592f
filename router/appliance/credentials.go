package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// credentials are the generated passwords of this start, and the file that keeps them
// for the owner.
type credentials struct {
	path  string
	lines []string
}

// keep adds a line to the file before anything is stored, so that no generated password
// is ever lost. A line for the same account, which an interrupted first start may have
// left, is replaced; the others stay.
func (c *credentials) keep(account, name, password string) error {
	line := fmt.Sprintf("%s: %s  password: %s\n", account, name, password)
	c.lines = append(c.lines, line)
	old, err := os.ReadFile(c.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the generated password: %w", err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(old), "\n"), func(l string) bool {
		return strings.HasPrefix(l, account+": ")
	})
	if err := writeDurably(c.path, strings.Join(lines, "")+line); err != nil {
		return fmt.Errorf("keep the generated password: %w", err)
	}
	return nil
}

// writeDurably replaces a file by one that only its owner can read.
func writeDurably(path, text string) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
