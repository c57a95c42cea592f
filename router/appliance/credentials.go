package appliance

import (
	"fmt"
	"os"
	"strings"
)

// credentials is what the first start generated, and the file that keeps it
// for its owner.
type credentials struct {
	path  string
	lines []string
}

// keep writes the file anew with one more line.
func (c *credentials) keep(what, name, password string) error {
	c.lines = append(c.lines, fmt.Sprintf("%s: %s  password: %s\n", what, name, password))
	if err := os.WriteFile(c.path, []byte(strings.Join(c.lines, "")), 0o600); err != nil {
		return fmt.Errorf("keep the generated password: %w", err)
	}
	return os.Chmod(c.path, 0o600)
}
