package browsertest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"signalbox/router/console/browsertest"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// holdVariable has TestHold run.
const holdVariable = "SIGNALBOX_TEST_HOLD"

// TestHold starts a browser and waits until it is killed.
func TestHold(t *testing.T) {
	if os.Getenv(holdVariable) == "" {
		return
	}
	browsertest.Open(t, "about:blank")
	fmt.Println("browser", browsertest.Pid())
	select {}
}

// TestBrowser_ends_with_a_killed_process expects none to be left.
func TestBrowser_ends_with_a_killed_process(t *testing.T) {
	t.Parallel()
	browsertest.Open(t, "about:blank") // skips the test without a browser
	dir, err := os.MkdirTemp("", "signalbox-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { suite.Eventually(t, func() error { return os.RemoveAll(dir) }) }) // processes of the browser may still write
	cmd := exec.Command(os.Args[0], "-test.run=^TestHold$")
	cmd.Env = append(os.Environ(), holdVariable+"=yes", "TMPDIR="+dir)
	pid := make(chan string, 1)
	p, err := process.Start(cmd, func(line string) bool {
		number, found := strings.CutPrefix(line, "browser ")
		if found {
			pid <- number
		}
		return found
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	stat := "/proc/" + <-pid + "/stat"
	suite.WaitFor(t, "the browser has ended", func() bool {
		text, err := os.ReadFile(stat)
		return err != nil || strings.Contains(string(text), ") Z ") // not yet reaped
	})
}
