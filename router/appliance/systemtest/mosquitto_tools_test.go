package systemtest

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"signalbox/scripts/process"
)

// tool prepares one of Mosquitto's command-line clients. If they are not installed the
// test is skipped, but not in CI.
func tool(t testing.TB, name, address, username, password string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		process.Missing(t, name+" is not installed (apt-get install mosquitto-clients)")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"-h", host, "-p", port, "-u", username, "-P", password}, args...)...)
	cmd.SysProcAttr = process.DieWithParent()
	cmd.Env = []string{"HOME=" + t.TempDir()} // no configuration of the user's own
	return cmd
}

// listener is a mosquitto_sub that runs next to the test.
type listener struct{ *process.Process }

// listen starts mosquitto_sub and waits until its subscription is acknowledged. stdbuf
// makes it write line by line, also without a terminal.
func listen(t testing.TB, cmd *exec.Cmd) *listener {
	t.Helper()
	cmd.Args = append([]string{"stdbuf", "-oL", cmd.Path}, append(cmd.Args[1:], "-d")...)
	cmd.Path = "/usr/bin/stdbuf"
	p, err := process.Start(cmd, func(line string) bool { return strings.Contains(line, "received SUBACK") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &listener{p}
}

// messages returns the lines that are not the tool's notes about its packets.
func (l *listener) messages() []string {
	var lines []string
	for line := range strings.Lines(l.Stdout.String() + l.Stderr.String()) {
		if !strings.HasPrefix(line, "Client ") && !strings.HasPrefix(line, "Subscribed ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
