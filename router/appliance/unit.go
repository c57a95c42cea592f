package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"signalbox/router/appliance/upgrade"
)

// Service is the service of a data directory, as others see it.
type Service struct {
	Running   bool
	Version   string // of its program, "" if it is not known
	Unit      string // of systemd, "" if it is not started by that
	Restarted bool   // by us

	user bool // the unit is one of a user
}

// findService finds the service that uses a data directory. It is an error if it runs another
// program.
func findService(ctx context.Context, c Config, program string) (s Service, err error) {
	s.Running, err = isLocked(c.DataDir)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil || !s.Running {
		return s, err
	}
	d, err := AskRunning(ctx, c)
	if err != nil || d == nil { // an older version, or one that is stopping
		return s, nil //nolint:nilerr // what it runs is not known then
	}
	s.Version = d.Version
	proc := filepath.Join("/proc", strconv.Itoa(d.PID))
	if path, err := os.Readlink(filepath.Join(proc, "exe")); err == nil {
		if path = strings.TrimSuffix(path, " (deleted)"); path != program && path != upgrade.FilesOf(program).Previous {
			return s, fmt.Errorf("the service runs %s, not %s: name its program with --program", path, program)
		}
	}
	if text, err := os.ReadFile(filepath.Join(proc, "cgroup")); err == nil {
		s.Unit, s.user = unitOf(string(text))
	}
	return s, nil
}

// unitOf returns the unit of systemd that a process is in, "" for none, from the list of its
// control groups. user reports whether it is a unit of a user's systemd.
func unitOf(cgroup string) (unit string, user bool) {
	for line := range strings.Lines(cgroup) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), "::")
		for part := range strings.SplitSeq(path, "/") {
			switch {
			case strings.HasPrefix(part, "user@"):
				user = true
			case strings.HasSuffix(part, ".service"):
				unit = part
			case strings.HasSuffix(part, ".scope"): // of a session, or of a container
				unit = ""
			}
		}
	}
	return unit, user && unit != ""
}

// Runs reports whether a version of the program runs.
func (s Service) Runs(v upgrade.Version) bool {
	return strings.HasPrefix(s.Version, v.Name+" (commit "+v.Commit)
}

// systemctl has systemd do something with the unit of the service.
func (s Service) systemctl(ctx context.Context, verb string) error {
	args := []string{verb, s.Unit}
	if s.user {
		args = append([]string{"--user"}, args...)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// restart has systemd restart the service, if that runs and was started by it.
func (s *Service) restart(ctx context.Context, no bool) error {
	if no || s.Unit == "" {
		return nil
	}
	if err := s.systemctl(ctx, "restart"); err != nil {
		return fmt.Errorf("the program was replaced, but the service did not start: %w; see \"journalctl -u %s\", and go back with \"signalbox upgrade rollback\"", err, s.Unit)
	}
	s.Restarted = true
	return nil
}
