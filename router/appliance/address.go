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

// addressFile contains the address of the API while the service runs, for commands that
// need it when the port was chosen by the system.
const addressFile = "http.address"

// writeAddress writes the address of the API to a file, until the service stops.
func (a *Appliance) writeAddress() error {
	path := filepath.Join(a.cfg.DataDir, addressFile)
	if err := writeDurably(path, a.server.Addr()+"\n"); err != nil {
		return fmt.Errorf("write down the address of the API: %w", err)
	}
	a.undo.add(func() error { return os.Remove(path) })
	return nil
}

// Address returns the address of the API of the service with this configuration.
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
