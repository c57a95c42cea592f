package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// addressFile holds the address of the API while the service runs, for the commands
// that look for it where the port was left to the system.
const addressFile = "http.address"

// keepAddress writes down where the API is, until the stop.
func (a *Appliance) keepAddress() error {
	path := filepath.Join(a.cfg.DataDir, addressFile)
	if err := writeDurably(path, a.server.Addr()+"\n"); err != nil {
		return fmt.Errorf("write down the address of the API: %w", err)
	}
	a.undo.add(func() error { return os.Remove(path) })
	return nil
}

// Address returns where the API of the service with this configuration listens.
func Address(c Config) (string, error) {
	if _, port, err := net.SplitHostPort(c.HTTP.Listen); err != nil || port != "0" {
		return c.HTTP.Listen, nil
	}
	text, err := os.ReadFile(filepath.Join(c.DataDir, addressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no service runs on %s", c.DataDir)
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
